/**
 * The routes of a port, in groups. A group has the routes of some first words of paths, and its modules are loaded with
 * its first request: a server starts sooner, and one that serves few kinds of requests stays smaller.
 *
 * No path belongs to two groups: so a group alone says which methods a path has. A test compares them.
 */
import { type AnyElysia, Elysia } from "elysia";
import type { Ctx } from "../context.ts";
import { nextTurn } from "../lib/turns.ts";
import { type ErrorAnswer, errorEnvelope } from "./answer/errors.ts";
import { compilePlainReads, leaveBodies, ROUTER, TLS_ROUTER } from "./elysia.ts";
import { ANY, fallback, type PageFor } from "./fallback.ts";

export type Route = AnyElysia["routes"][number];

/** Loads the groups that no request has loaded yet. */
export type AllRoutes = () => Promise<readonly Route[]>;

/** The routes of a resource. `all`: for a route that tells of the others. */
export type Routes = (ctx: Ctx, all: AllRoutes) => AnyElysia;

export type RouteGroup = {
  /** First words of paths, as `/v1/datasets` or `/api`. The first group of a port has all that are in no other. */
  readonly at: readonly string[];
  readonly load: () => readonly Routes[] | Promise<readonly Routes[]>;
};

export type Port = {
  readonly groups: readonly RouteGroup[];
  readonly answers: ErrorAnswer;
  readonly pageFor?: PageFor | undefined;
};

/** Example: `/v1/datasets` of `/v1/datasets/ds_1/rows`, and `/api` of `/api/chat`. */
export function firstWords(path: string): string {
  const end = path.indexOf("/", path.startsWith("/v1/") ? "/v1/".length : 1);
  return end < 0 ? path : path.slice(0, end);
}

/** A group of a running server. */
type Opening = { app?: AnyElysia; opened?: Promise<AnyElysia> };

export function openGroups(ctx: Ctx, { groups, answers, pageFor }: Port) {
  const openings = groups.map((): Opening => ({}));
  const groupByWords = new Map(groups.flatMap(({ at }, i) => at.map((words) => [words, i] as const)));
  const all: AllRoutes = async () => {
    const apps: AnyElysia[] = [];
    for (const i of groups.keys()) {
      if (!openings[i]?.app) await nextTurn(); // one group takes up to 20 ms: requests are answered in between
      apps.push(await open(i));
    }
    const [first, ...others] = apps;
    const routes = others.flatMap((app) => app.routes.filter(({ method }) => method !== ANY)); // one fallback is enough
    return [...(first?.routes ?? []), ...routes];
  };

  function mountGroup(parts: readonly Routes[]): AnyElysia {
    const router = ctx.config.http.tls_cert === "" ? ROUTER : TLS_ROUTER;
    const begun: AnyElysia = new Elysia(router).use(errorEnvelope(ctx, answers));
    const app = parts.reduce((mounted, routes) => mounted.use(routes(ctx, all)), begun).use(fallback(ctx, pageFor));
    leaveBodies(app);
    compilePlainReads(app);
    return app;
  }
  function open(i: number): AnyElysia | Promise<AnyElysia> {
    const opening = openings[i] as Opening;
    if (opening.app ?? opening.opened) return (opening.app ?? opening.opened) as AnyElysia | Promise<AnyElysia>;
    const opened = (parts: readonly Routes[]) => {
      opening.app = mountGroup(parts);
      return opening.app;
    };
    const parts = (groups[i] as RouteGroup).load();
    if (!(parts instanceof Promise)) return opened(parts);
    opening.opened = parts.then(opened);
    return opening.opened;
  }
  const groupOf = (path: string) => groupByWords.get(firstWords(path)) ?? 0;
  return {
    all,
    /** The application that serves a path, which is a promise until it is loaded. */
    at: (path: string) => open(groupOf(path)),
    /** The routes that are loaded for a path. */
    routesAt: (path: string): readonly Route[] => openings[groupOf(path)]?.app?.routes ?? [],
  };
}
