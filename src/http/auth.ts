import { Elysia } from "elysia";
import type { z } from "zod";
import type { Ctx, Principal } from "../context.ts";
import { droppedKinds } from "../lib/chat/tools.ts";
import { AppError, type ErrorCode } from "../lib/errors.ts";
import { pathOf } from "../lib/net/request_target.ts";
import { type Area, allows } from "../lib/scopes.ts";
import { clientFormatOf, takesApiKeyHeader } from "./answer/client_errors.ts";
import { isServicePath } from "./answer/service_errors.ts";
import { isRead } from "./audit.ts";
import { type Reading as BodyReading, readJson } from "./body/json.ts";
import { checkFields, nameUnknown } from "./body/unknown_fields.ts";
import { requireOwnPage, sessionTokenOf } from "./browser_session.ts";
import { type BodyKind, bodyLimits } from "./limits/body_limits.ts";
import { type Caller, type RequestState, setCaller, stateOf } from "./request_state.ts";
import { confine, forceModel } from "./rollouts.ts";
import { warn } from "./warnings.ts";

const SCHEME = /^Bearer +(\S+)$/i;

/** Undefined: no header. */
function bearerOf(header: string | null): string | undefined {
  if (header === null) return undefined;
  if (header.startsWith("Bearer vk_")) return header.slice(7);
  const key = SCHEME.exec(header)?.[1];
  if (key !== undefined) return key;
  const message = "Authorization: the header must be the word Bearer and a key: Authorization: Bearer vk_…";
  throw new AppError("invalid_api_key", message, { param: "Authorization" });
}

/** The way an interface takes its key, and its own checks before a body is read. */
export type KeyRules = {
  /** Undefined: the request has no key. */
  keyOf: (request: Request) => string | undefined;
  /** The caller of a request without a key; undefined: the key is missing. */
  withoutKey?: (request: Request) => Principal | undefined;
  admit?: (principal: Principal, request: Request) => void;
};

/**
 * Clients of some other formats send the key in X-API-Key, those of Azure in Api-Key, those of Google in X-Goog-Api-Key.
 * No other route reads these headers.
 */
export const bearer: KeyRules = {
  keyOf(request) {
    const { headers } = request;
    const key = bearerOf(headers.get("authorization"));
    if (key !== undefined) return key;
    const named = headers.get("x-api-key")?.trim();
    if (named && takesApiKeyHeader(request)) return named;
    const format = clientFormatOf(pathOf(request));
    if (headers.has("api-key") && format === "openai") return headers.get("api-key")?.trim();
    if (headers.has("x-goog-api-key") && format === "google") return headers.get("x-goog-api-key")?.trim();
    if (!named) return undefined;
    throw new AppError(
      "missing_api_key",
      "This route takes the API key as Authorization: Bearer vk_… instead of X-API-Key, which is for detection and for clients of Anthropic and llama.cpp",
    );
  },
};

/** Langfuse's SDK sends a public and a secret key as user and password. One of them, or both, is the key. */
export const bearerOrBasic: KeyRules = {
  keyOf(request) {
    const [, encoded] = /^Basic +([\w+/=-]{1,1024})$/i.exec(request.headers.get("authorization") ?? "") ?? [];
    if (encoded === undefined) return bearer.keyOf(request);
    const parts = Buffer.from(encoded, "base64").toString().split(":");
    return parts.findLast((part) => part.startsWith("vk_")) ?? "";
  },
};

/** The way of the detection interface. */
export const apiKeyHeader: KeyRules = {
  keyOf(request) {
    const key = request.headers.get("x-api-key")?.trim();
    if (key) return key;
    const message = request.headers.has("authorization")
      ? "This route takes the key in the header X-API-Key, not in Authorization: send X-API-Key: vk_…"
      : "Send an API key in the header X-API-Key (make one with `verk keys create`)";
    throw new AppError("missing_api_key", message);
  },
};

/**
 * A path of the API that has no route: a caller without a valid key gets 401, as for every route, and does not learn
 * which routes exist. Other paths are open.
 */
export function requireKeyFor(ctx: Authenticators, request: Request, path: string) {
  if (isServicePath(path)) principalOf(ctx, request, request.headers.has("authorization") ? bearer : apiKeyHeader);
  else if (/^\/v1(?:beta)?\//.test(path)) principalOf(ctx, request, bearer);
}

const rulesAt = (path: string): KeyRules => (isServicePath(path) ? apiKeyHeader : bearer);

type Authenticators = Pick<Ctx, "authenticate" | "authenticateSession">;

/** The caller by the key of the request or, without a key, by the cookie of a browser session. */
function principalOf(ctx: Authenticators, request: Request, keyRules: KeyRules): Principal {
  const principal = callerOf(ctx, request, keyRules);
  confine(request, principal);
  return principal;
}

function callerOf(ctx: Authenticators, request: Request, keyRules: KeyRules): Principal {
  const token = sessionTokenOf(request);
  if (token === undefined) {
    const key = keyRules.keyOf(request);
    return (key === undefined ? keyRules.withoutKey?.(request) : undefined) ?? ctx.authenticate(key);
  }
  const session = ctx.authenticateSession(token);
  stateOf(request).session = session;
  return session;
}

/** A key that is known and refused. The audit log of its workspace records the attempt. */
export class RefusedKey extends AppError {
  constructor(
    message: string,
    readonly caller: Caller,
  ) {
    super("revoked_api_key", message);
  }
}

type Entry = { ctx: Ctx; area: Area; keyRules: KeyRules };

function identify({ ctx, keyRules }: Entry, request: Request): Principal {
  try {
    return principalOf(ctx, request, keyRules);
  } catch (error) {
    const { refusedKeys } = ctx.state.http;
    if (error instanceof RefusedKey && !isRead(request) && refusedKeys.admits(error.caller.keyId))
      setCaller(request, error.caller);
    throw error;
  }
}

function admit(entry: Entry, request: Request, state: RequestState): Principal {
  const { area, keyRules } = entry;
  const { rates, workspaceRates, underWay } = entry.ctx.state.http;
  const principal = identify(entry, request);
  state.principal = principal;
  rates.spend(principal.keyId);
  workspaceRates.spend(principal.workspaceId);
  const reads = isRead(request);
  if (!reads) {
    underWay.enter(request, principal.keyId);
    state.caller = principal;
  }
  if (!allows(principal.scopes, area, reads))
    throw new AppError("missing_scope", `This key lacks the scope for ${area}: it has ${principal.scopes.join(", ")}`);
  if (state.session) requireOwnPage(request, state.session);
  keyRules.admit?.(principal, request);
  state.admittedTo = entry;
  return principal;
}

/** Waits for the turn of the request's workspace. A request without a valid key is refused at little cost, so it goes on. */
export async function awaitTurn(ctx: Ctx, request: Request): Promise<void> {
  let workspaceId: string;
  try {
    workspaceId = principalOf(ctx, request, rulesAt(pathOf(request))).workspaceId;
  } catch {
    return;
  }
  await ctx.state.http.turns.enter(workspaceId);
}

/** True while the key of the request is still valid. A long answer checks it again on the way. */
export function isStillAdmitted(ctx: Authenticators, request: Request): boolean {
  try {
    principalOf(ctx, request, rulesAt(pathOf(request)));
    return true;
  } catch (error) {
    if (error instanceof AppError) return false;
    throw error;
  }
}

/** `kind`: the row in the table of limits; small by default. `tooLarge`: the error code for a body over the limit. */
type Reading = Partial<BodyReading> & { kind?: BodyKind; tooLarge?: ErrorCode };

/** Clients of that format send fields of other servers too. They are ignored, and the answer names them. */
const INFERENCE: ReadonlySet<BodyKind> = new Set<BodyKind>(["chat", "tokens"]);

async function readAs(ctx: Ctx, request: Request, { kind = "small", tooLarge, ...more }: Reading): Promise<unknown> {
  try {
    return await readJson(ctx, request, { ...bodyLimits(ctx, kind), ...more });
  } catch (error) {
    if (tooLarge === undefined || !(error instanceof AppError) || error.code !== "payload_too_large") throw error;
    throw new AppError(tooLarge, error.message, { cause: error });
  }
}

/**
 * Key → principal, before the body is read and before anything is validated. So a request without a valid key gets 401
 * whatever it sends, and the server buffers no body for it. A resource says `.use(authed)`, and each of its routes that
 * has a body says `...takes(Schema)`.
 */
export function area(ctx: Ctx, name: Area, keyRules: KeyRules = bearer) {
  const entry: Entry = { ctx, area: name, keyRules };
  const authed = new Elysia().derive({ as: "scoped" }, ({ request, route }) => {
    const state = stateOf(request);
    state.route = route;
    const { principal, admittedTo } = state;
    return { principal: principal && admittedTo === entry ? principal : admit(entry, request, state) };
  });
  const parsing =
    (body: z.ZodType, reading: Reading) =>
    async ({ request, route }: { request: Request; route: string }) => {
      const state = stateOf(request);
      state.route = route;
      admit(entry, request, state);
      const value = await readAs(ctx, request, reading);
      if (state.principal?.rollout) forceModel(value, state.principal);
      if (INFERENCE.has(reading.kind ?? "small")) {
        state.body = value;
        nameUnknown(request, body, value);
        for (const dropped of droppedKinds(value)) warn(request, dropped);
      } else checkFields(request, body, value);
      return value;
    };
  return {
    authed,
    takes: <S extends z.ZodType>(body: S, reading: Reading = {}) => ({ body, parse: [parsing(body, reading)] }),
  };
}
