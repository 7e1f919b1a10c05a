/**
 * Requests of a rollout: an agent calls models through an address and a key of its own. The address ends with /v1, and the
 * routes of every client's format work behind it, however the client joins them.
 */
import type { Principal } from "../context.ts";
import { AppError } from "../lib/errors.ts";
import { moveTo, pathOf } from "../lib/net/request_target.ts";
import { stateOf } from "./request_state.ts";

const UNDER_BASE = /^\/rollouts\/(rol_[0-9a-z]+)\/(?=v1\/|api\/|chat\/|responses|messages|models)/;

/** The routes that the key of a rollout opens. None of them shows or changes what the workspace stores. */
const OPEN: readonly RegExp[] = [
  /^POST \/v1\/(?:chat\/completions|responses|messages)(?:\/(?:input_tokens|count_tokens))?$/,
  /^GET \/v1\/models(?:\/[^/]+)?$/,
  /^POST \/api\/(?:chat|show)$/,
  /^GET \/api\/(?:tags|ps|version)$/,
];

/** The request itself gets the path of the route. */
export function followRollout(request: Request) {
  const path = pathOf(request);
  const [base, id] = UNDER_BASE.exec(path) ?? [];
  if (base === undefined || id === undefined) return;
  stateOf(request).rolloutId = id;
  const rest = path.slice(base.length).replace(/^(?:v1\/)+/, "");
  moveTo(request, rest.startsWith("api/") ? `/${rest}` : `/v1/${rest}`);
}

/** Throws unless the key belongs to the base URL, and opens the route. */
export function confine(request: Request, { rollout }: Principal) {
  const { rolloutId } = stateOf(request);
  if (rolloutId !== undefined && rollout?.id !== rolloutId)
    throw new AppError("invalid_api_key", "This base URL takes the api_key of its rollout, from POST /v1/rollouts");
  if (!rollout || OPEN.some((route) => route.test(`${request.method} ${pathOf(request)}`))) return;
  throw new AppError("missing_scope", "The key of a rollout opens chats, responses, messages and lists of models only");
}

/** Fields of a request that name what the workspace stores. */
const STORED = ["previous_response_id", "conversation"] as const;

/** The model is that of the rollout, and nothing is stored or read beside its turns. */
export function forceModel(value: unknown, { rollout }: Principal) {
  if (!rollout || typeof value !== "object" || value === null) return;
  const body = value as Record<string, unknown>;
  for (const field of STORED)
    if (body[field] !== undefined && body[field] !== null)
      throw new AppError("schema", `${field}: does not work in a rollout. Send the whole conversation`, {
        param: `/${field}`,
      });
  if (body["background"] === true)
    throw new AppError("schema", "background: does not work in a rollout. Remove it", { param: "/background" });
  body["model"] = rollout.model;
  if (body["store"] !== undefined || "input" in body) body["store"] = false;
}
