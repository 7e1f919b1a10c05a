/**
 * The state of one request while it is served. It is a property of the request itself, because Elysia passes nothing
 * else from the handler to every hook and back. That costs 20 ns; a WeakMap took 190 ns.
 */
import type { Principal, SessionPrincipal } from "../context.ts";

export type Caller = Pick<Principal, "workspaceId" | "keyId" | "userId">;

export class RequestState {
  readonly startedAt = performance.now();
  id: string | undefined;
  /** The pattern of the chosen route, as `/v1/jobs/:id`; undefined for a route that needs no key. */
  route: string | undefined;
  /** Set when the key is known, before it is admitted. */
  principal: Principal | undefined;
  /** Set when the cookie of a browser session stands for the key. */
  session: SessionPrincipal | undefined;
  /** The area that has admitted the key. */
  admittedTo: object | undefined;
  /** Recorded in the audit log; undefined: the call is not recorded. */
  caller: Caller | undefined;
  /** The id of the resource that this request has made. */
  made: string | undefined;
  /** False: the answer does not depend on anything that was written, so it need not wait for the disk. */
  needsFlush = true;
  /** The Content-Length that the answer to a HEAD request announces. */
  announcedLength: number | undefined;
  /** The key whose count of requests under way includes this one. */
  keyUnderWay: string | undefined;
  /** The body of an inference request, as it was read. It is not checked. */
  body: unknown;
  /** An inference request has its own record: if it fails, its refusal needs no second one. */
  isRecorded = false;
  /** The path was one that clients of llama.cpp alone use, as /chat/completions without /v1. */
  isOfLlama = false;
  /** The request came to the base URL of this rollout. */
  rolloutId: string | undefined;
  /** Parts of the request that the server ignored. */
  readonly warnings: string[] = [];
  /** Memory reserved for the body of this request. */
  reserved: { workspaceId: string; bytes: number } | undefined;
}

type Served = Request & { verk?: RequestState };

export function stateOf(request: Request): RequestState {
  const served: Served = request;
  served.verk ??= new RequestState();
  return served.verk;
}

const FROM_CLIENT = /^[\w.:-]{1,64}$/;

/** The id in the log and in the answer. A well-formed X-Request-Id of the client is kept. */
export function requestIdOf(request: Request): string {
  const state = stateOf(request);
  state.id ??= chooseId(request.headers.get("x-request-id"));
  return state.id;
}

const chooseId = (sent: string | null) => (sent !== null && FROM_CLIENT.test(sent) ? sent : crypto.randomUUID());

/** The audit log records this request under the caller's workspace and key. */
export function setCaller(request: Request, caller: Caller) {
  stateOf(request).caller = caller;
}

export const callerOf = (request: Request): Caller | undefined => stateOf(request).caller;

/** The audit log names the resource in `answer` as made by this request. */
export function setMade(request: Request, answer: unknown) {
  const id = (answer as { id?: unknown } | undefined)?.id;
  if (typeof id === "string") stateOf(request).made = id;
}

/** The answer to this request does not depend on anything that was written. */
export function skipFlush(request: Request) {
  stateOf(request).needsFlush = false;
}
