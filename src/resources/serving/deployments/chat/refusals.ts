/**
 * Records inference requests that are refused before they begin: a body that is wrong, or a model that does not exist.
 * Without these records a broken client would be invisible in the request log, the metrics and the traces.
 */
import type { Ctx, Principal } from "../../../../context.ts";
import { clientFormatOf } from "../../../../http/answer/client_errors.ts";
import { stateOf } from "../../../../http/request_state.ts";
import { AppError } from "../../../../lib/errors.ts";
import { newId } from "../../../../lib/ids.ts";
import { pathOf } from "../../../../lib/net/request_target.ts";
import * as traces from "../../../watching/traces/service.ts";
import { resolveModel } from "../../agents/apply.ts";
import type { DeploymentRow } from "../table.ts";
import { saveRequest } from "./records.ts";

const SOURCES = [
  [/\/chat\/completions$|^\/v1\/(?:messages|responses)$|^\/api\/chat$|\/(?:g|streamG)enerateContent$/, "chat"],
  [/\/completions$|^\/(?:completion|infill)$|^\/api\/generate$/, "completion"],
  [
    /\/embeddings$|^\/v1\/rerank$|^\/api\/embed$|\/(?:embedContent|batchEmbedContents|feature-extraction)$/,
    "embedding",
  ],
] as const;

const IN_PATH = /^\/(?:v1\/deployments|(?:v1beta\/)?models)\/([^/]+)\//;

/** Keys that are wrong or too busy are no mistakes of a request: each would cost a row for nothing. */
const UNRECORDED: readonly number[] = [401, 403, 429];

/** Called by every group of inference routes. Each of them may be the first that is loaded. */
export function recordRefusals(ctx: Ctx) {
  ctx.state.http.onRefusal = (request, error) =>
    record(ctx, request, error, (workspaceId) => {
      const [, named] = IN_PATH.exec(pathOf(request)) ?? [];
      const { model: written } = (stateOf(request).body ?? {}) as { model?: unknown };
      const model = typeof written === "string" ? written.slice(0, 300) : undefined;
      const row = deploymentFor(ctx, workspaceId, named === undefined ? model : decodeURIComponent(named));
      return row || named === undefined ? { row, model } : undefined;
    });
}

/** A request that was refused after its deployment was chosen. */
export const recordRefusal = (ctx: Ctx, request: Request, { error, row }: { error: AppError; row: DeploymentRow }) =>
  record(ctx, request, error, () => ({ row, model: row.name }));

/** `row` undefined: no deployment has the name `model`. */
type Target = { row: DeploymentRow | undefined; model: string | undefined };
type FindTarget = (workspaceId: string) => Target | undefined;

/** Never throws. Only the first call for a request has an effect. `find`: undefined if the address names nothing. */
function record(ctx: Ctx, request: Request, error: AppError, find: FindTarget) {
  const { method } = request;
  const source = method === "POST" ? SOURCES.find(([pattern]) => pattern.test(pathOf(request)))?.[1] : undefined;
  const state = stateOf(request);
  if (source === undefined || !state.principal || state.isRecorded) return;
  if (UNRECORDED.includes(error.status) || error.status >= 500) return;
  state.isRecorded = true;
  try {
    const target = find(state.principal.workspaceId);
    if (target) save(ctx, request, { ...target, error, source, principal: state.principal });
  } catch (cause) {
    ctx.log.error("a refused request was not recorded", { error: cause });
  }
}

type Refused = Target & { error: AppError; source: (typeof SOURCES)[number][1]; principal: Principal };

function save(ctx: Ctx, request: Request, { row, model, error, source, principal }: Refused) {
  const { workspaceId, keyId } = principal;
  const latencyMs = performance.now() - stateOf(request).startedAt;
  const createdAt = Math.round(ctx.clock.now() - latencyMs);
  const status = error.status === 422 && clientFormatOf(pathOf(request)) !== "contract" ? 400 : error.status;
  const message = error.message.slice(0, 1_000);
  if (row)
    saveRequest(ctx, row, {
      id: newId("req", createdAt),
      createdAt,
      latencyMs,
      status,
      error: message,
      keyId,
      model: row.model,
      prompt: 0,
      cached: 0,
      completion: 0,
      firstTokenMs: null,
      waitedMs: 0,
      open: 0,
      waiting: 0,
    });
  traces.record(ctx, {
    workspaceId,
    source,
    deploymentId: row?.id ?? null,
    keyId,
    model: row?.model ?? model ?? null,
    capture: row?.capture ?? "none",
    redact: row?.captureRedact ?? [],
    status,
    errorCode: error.code,
    startedAt: createdAt,
    durationMs: latencyMs,
    spans: [],
    conversationId: request.headers.get("x-conversation-id"),
  });
}

/** By id, name, or the `model` of a request. Undefined: there is none. */
function deploymentFor(ctx: Ctx, workspaceId: string, name: string | undefined): DeploymentRow | undefined {
  try {
    return resolveModel(ctx, workspaceId, name).deployment;
  } catch (error) {
    if (error instanceof AppError) return undefined;
    throw error;
  }
}
