import { Elysia } from "elysia";
import type { Ctx, Principal } from "../context.ts";
import { AppError } from "../lib/errors.ts";
import { type Area, allows } from "../lib/scopes.ts";
import { readJson } from "./body.ts";
import type { RateLimiter } from "./rate_limit.ts";
import { rateLimiterOf } from "./rate_limit.ts";

const SCHEME = /^Bearer +(\S+)$/i;

function admit(ctx: Ctx, limiter: RateLimiter, area: Area, request: Request): Principal {
  const header = request.headers.get("authorization");
  const principal = ctx.authenticate(header === null ? undefined : (SCHEME.exec(header)?.[1] ?? ""));
  limiter.spend(principal.keyId);
  if (!allows(principal.scopes, area, request.method === "GET" || request.method === "HEAD"))
    throw new AppError("missing_scope", `This key lacks the scope for ${area}: it has ${principal.scopes.join(", ")}`);
  return principal;
}

/**
 * Key → principal, before the body is read and before anything is validated: a stranger gets 401 whatever it
 * sends, and cannot make us buffer a body. Elysia parses before `derive`, hence the parse hook too.
 */
export function authed(ctx: Ctx, area: Area) {
  const limiter = rateLimiterOf(ctx);
  const admitted = new WeakMap<Request, Principal>(); // filled only where a body is read
  return new Elysia({ name: "authed", seed: [ctx, area] })
    .onParse({ as: "scoped" }, ({ request }) => {
      admitted.set(request, admit(ctx, limiter, area, request));
      return readJson(request, ctx.config.http.max_body_bytes);
    })
    .derive({ as: "scoped" }, ({ request }) => ({
      principal: admitted.get(request) ?? admit(ctx, limiter, area, request),
    }));
}
