import { Elysia } from "elysia";
import type { z } from "zod";
import type { Ctx, Principal } from "../context.ts";
import { AppError } from "../lib/errors.ts";
import { type Area, allows } from "../lib/scopes.ts";
import { actsFor } from "./audit.ts";
import { readJson } from "./body.ts";
import type { RateLimiter } from "./rate_limit.ts";
import { rateLimiterOf } from "./rate_limit.ts";
import { type Arrival, arrivalOf } from "./request_metrics.ts";

const SCHEME = /^Bearer +(\S+)$/i;

/** Undefined: no header. Empty: a header, but no bearer key in it. */
function bearerOf(header: string | null): string | undefined {
  if (header === null) return undefined;
  if (header.startsWith("Bearer vk_")) return header.slice(7);
  return SCHEME.exec(header)?.[1] ?? "";
}

type Door = { ctx: Ctx; limiter: RateLimiter; area: Area; arrival: Arrival };

function admit({ ctx, limiter, area, arrival }: Door, request: Request): Principal {
  const principal = ctx.authenticate(bearerOf(request.headers.get("authorization")));
  arrival.workspaceId = principal.workspaceId;
  limiter.spend(principal.keyId);
  const { method } = request;
  const reads = method === "GET" || method === "HEAD";
  if (!reads) actsFor(request, principal);
  if (!allows(principal.scopes, area, reads))
    throw new AppError("missing_scope", `This key lacks the scope for ${area}: it has ${principal.scopes.join(", ")}`);
  return principal;
}

/** Whether the key that was let in would be let in now: an answer that takes its time asks again on the way. */
export function isStillAdmitted(ctx: Pick<Ctx, "authenticate">, request: Request): boolean {
  try {
    ctx.authenticate(bearerOf(request.headers.get("authorization")));
    return true;
  } catch (error) {
    if (error instanceof AppError) return false;
    throw error;
  }
}

/**
 * Key → principal, before the body is read and before anything is validated: a stranger gets 401 whatever it
 * sends, and cannot make us buffer a body. Elysia parses before `derive`, so a route with a body admits in its
 * parser: `.use(authed)` on the resource, `...takes(Schema)` on each route that has a body.
 */
export function area(ctx: Ctx, name: Area) {
  const arrival = arrivalOf(ctx);
  const door: Door = { ctx, limiter: rateLimiterOf(ctx), area: name, arrival };
  const admitted = new WeakMap<Request, Principal>(); // filled only where a body is read
  const authed = new Elysia().derive({ as: "scoped" }, ({ request, route }) => {
    arrival.route = route;
    return { principal: admitted.get(request) ?? admit(door, request) };
  });
  const parsing =
    (exactly?: string) =>
    ({ request, route }: { request: Request; route: string }) => {
      arrival.route = route;
      admitted.set(request, admit(door, request));
      return readJson(request, ctx.config.http.max_body_bytes, exactly);
    };
  return {
    authed,
    /** `exactly`: a field of rows whose numbers keep their digits. */
    takes: <S extends z.ZodType>(body: S, exactly?: string) => ({ body, parse: [parsing(exactly)] }),
  };
}
