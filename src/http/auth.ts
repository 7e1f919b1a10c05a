import { Elysia } from "elysia";
import type { z } from "zod";
import type { Ctx, Principal } from "../context.ts";
import { AppError, type ErrorCode } from "../lib/errors.ts";
import { type Area, allows } from "../lib/scopes.ts";
import { actsFor, type Caller, isRead } from "./audit.ts";
import { type Reading as BodyReading, readJson } from "./body/json.ts";
import { type BodyKind, bodyLimits } from "./limits/body_limits.ts";
import { type RateLimiter, rateLimiterOf, refusedKeyLimiterOf } from "./limits/rate_limit.ts";
import { type UnderWay, underWayOf } from "./limits/under_way.ts";
import { type Arrival, arrivalOf } from "./request_metrics.ts";

const SCHEME = /^Bearer +(\S+)$/i;

/** Undefined: no header. Empty: a header, but no bearer key in it. */
function bearerOf(header: string | null): string | undefined {
  if (header === null) return undefined;
  if (header.startsWith("Bearer vk_")) return header.slice(7);
  return SCHEME.exec(header)?.[1] ?? "";
}

/** How callers come in: where their key is, and what more is asked of them before a body is read. */
export type Door = {
  /** Undefined: none was sent. */
  keyOf: (request: Request) => string | undefined;
  admit?: (principal: Principal, request: Request) => void;
};

const bearer: Door = { keyOf: (request) => bearerOf(request.headers.get("authorization")) };

/** A key that we know and do not let in: whose it is, the audit log tells its workspace. */
export class RefusedKey extends AppError {
  constructor(
    message: string,
    readonly caller: Caller,
  ) {
    super("revoked_api_key", message);
  }
}

type Way = { ctx: Ctx; limiter: RateLimiter; underWay: UnderWay; area: Area; arrival: Arrival; door: Door };

function identify({ ctx, door }: Way, request: Request): Principal {
  try {
    return ctx.authenticate(door.keyOf(request));
  } catch (error) {
    if (error instanceof RefusedKey && !isRead(request) && refusedKeyLimiterOf(ctx).admits(error.caller.keyId))
      actsFor(request, error.caller);
    throw error;
  }
}

function admit(way: Way, request: Request): Principal {
  const { limiter, underWay, area, arrival, door } = way;
  const principal = identify(way, request);
  arrival.workspaceId = principal.workspaceId;
  limiter.spend(principal.keyId);
  const reads = isRead(request);
  if (!reads) {
    underWay.enter(request, principal.keyId);
    actsFor(request, principal);
  }
  if (!allows(principal.scopes, area, reads))
    throw new AppError("missing_scope", `This key lacks the scope for ${area}: it has ${principal.scopes.join(", ")}`);
  door.admit?.(principal, request);
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

/** `kind`: its row in the table of limits, small unless it says. `tooLarge`: the error code of a body over its limit. */
type Reading = Partial<BodyReading> & { kind?: BodyKind; tooLarge?: ErrorCode };

async function readAs(ctx: Ctx, request: Request, { kind = "small", tooLarge, ...more }: Reading): Promise<unknown> {
  try {
    return await readJson(ctx, request, { ...bodyLimits(ctx, kind), ...more });
  } catch (error) {
    if (tooLarge === undefined || !(error instanceof AppError) || error.code !== "payload_too_large") throw error;
    throw new AppError(tooLarge, error.message, { cause: error });
  }
}

/**
 * Key → principal, before the body is read and before anything is validated: a stranger gets 401 whatever it
 * sends, and cannot make us buffer a body. Elysia parses before `derive`, so a route with a body admits in its
 * parser: `.use(authed)` on the resource, `...takes(Schema)` on each route that has a body.
 */
export function area(ctx: Ctx, name: Area, door: Door = bearer) {
  const arrival = arrivalOf(ctx);
  const way: Way = { ctx, limiter: rateLimiterOf(ctx), underWay: underWayOf(ctx), area: name, arrival, door };
  const admitted = new WeakMap<Request, Principal>(); // filled only where a body is read
  const authed = new Elysia().derive({ as: "scoped" }, ({ request, route }) => {
    arrival.route = route;
    return { principal: admitted.get(request) ?? admit(way, request) };
  });
  const parsing =
    (reading: Reading) =>
    ({ request, route }: { request: Request; route: string }) => {
      arrival.route = route;
      admitted.set(request, admit(way, request));
      return readAs(ctx, request, reading);
    };
  return {
    authed,
    takes: <S extends z.ZodType>(body: S, reading: Reading = {}) => ({ body, parse: [parsing(reading)] }),
  };
}
