import { Elysia } from "elysia";
import type { z } from "zod";
import { AppError } from "../lib/errors.ts";
import { isId, type Prefix } from "../lib/ids.ts";
import { queryOf } from "../lib/net/request_target.ts";
import { stateOf } from "./request_state.ts";
import { warn } from "./warnings.ts";

type Question = { request: Request; query: object };

/**
 * For a route with a query: `...asks(PageQuery)`. A value is the text that the caller wrote: plain Elysia would split
 * it at commas and read brackets as JSON. A name that is given twice becomes a list, which no schema here takes.
 * The `warning` header of the answer names what the schema does not have. `more`: further names that the route reads.
 */
export const asks = <S extends z.ZodType>(query: S, more?: RegExp) => ({
  query,
  transform: (question: Question) => {
    const texts = textsOf(question.request);
    question.query = texts;
    const { shape } = query as { shape?: object };
    for (const name in texts)
      if (shape && !Object.hasOwn(shape, name) && !more?.test(name))
        warn(question.request, `unknown query parameter ${name}`);
  },
});

function textsOf(request: Request): Record<string, string | string[]> {
  const query = queryOf(request);
  return Object.fromEntries(
    [...new Set(query.keys())].map((name) => {
      const [first = "", ...more] = query.getAll(name);
      return [name, more.length === 0 ? first : [first, ...more]];
    }),
  );
}

/** Ids of the workspace's rows with this name, at most `MOST_IDS`. Several mean that the name is not enough. */
export type FindIds = (workspaceId: string, name: string) => readonly { id: string }[];
export const MOST_IDS = 5;

/**
 * For routes with an id in the path: `.use(named(…))` after `.use(authed)`. The id first, then a name of the workspace. Puts the id into `params.id`, so that a handler sees ids alone. A name that no row
 * has stays: the handler answers that there is none. An id of another workspace stays an id.
 */
export const named = (prefix: Prefix, what: string, find: FindIds) =>
  new Elysia().derive({ as: "scoped" }, ({ request, params }) => {
    const path = (params ?? {}) as { id?: string }; // a route without one has no params at all
    const workspaceId = stateOf(request).principal?.workspaceId;
    if (path.id === undefined || workspaceId === undefined || isId(path.id, prefix)) return {};
    const [first, ...others] = find(workspaceId, path.id);
    if (first && others.length > 0) {
      const ids = [first, ...others].map(({ id }) => id).join(", ");
      const message = `several ${what} have the name ${JSON.stringify(path.id.slice(0, 80))}: give the id of one (${ids})`;
      throw new AppError("schema", message, { param: "id" });
    }
    if (first) path.id = first.id;
    return {};
  });
