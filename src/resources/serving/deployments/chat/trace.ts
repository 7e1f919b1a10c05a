/** The trace of a request that has ended: its stages, and as much of the request as the deployment captures. */
import { HOUR_MS } from "../../../../lib/units.ts";
import type { NewTrace } from "../../../watching/traces/new_trace.ts";
import type { Capture, Span } from "../../../watching/traces/table.ts";
import type { Usage } from "../fleet/fleet.ts";
import type { DeploymentRow } from "../table.ts";
import type { CapturedOutput } from "./captured_output.ts";
import type { InferenceCall, ModelPath } from "./flight.ts";
import { withoutBytes } from "./images.ts";
import type { Outcome } from "./records.ts";

/** Times from the arrival of the request. */
export type Timeline = {
  waitsFor?: "queue" | "wake";
  attachedMs?: number;
  sentMs?: number;
  /** The first part of a streamed answer. */
  firstMs?: number;
};

type Ended = {
  id: string;
  row: DeploymentRow;
  call: InferenceCall;
  startedAt: number;
  durationMs: number;
  outcome: Outcome;
  used: Usage | undefined;
  timeline: Timeline;
  output: CapturedOutput | undefined;
  adapter: string | null;
  /** The model of the replica that answered. */
  model: string;
  /** Requests in the replica at the end of this one, with this one. Undefined: no replica had it. */
  together: number | undefined;
};

const SOURCES = {
  "/chat/completions": "chat",
  "/completions": "completion",
  "/embeddings": "embedding",
  "/rerank": "embedding",
} as const;
const INPUTS = {
  "/chat/completions": "messages",
  "/completions": "prompt",
  "/embeddings": "input",
  "/rerank": "input",
} as const;

export function toTrace({
  id,
  row,
  call,
  startedAt,
  durationMs,
  outcome,
  used,
  timeline,
  output,
  adapter,
  model,
  together,
}: Ended): NewTrace {
  const body: Readonly<Record<string, unknown>> = call.body;
  const metadata = (body["metadata"] ?? null) as Record<string, unknown> | null;
  const named = metadata?.["conversation_id"];
  // A judge's request is not traffic: captured, it could be sampled for the next evaluation.
  const capture = call.background ? "none" : row.capture;
  return {
    id,
    workspaceId: row.workspaceId,
    source: call.background ? "evaluation" : SOURCES[call.path as ModelPath],
    deploymentId: row.id,
    keyId: call.keyId === "" ? null : call.keyId,
    model,
    adapter,
    agentId: call.agentId ?? null,
    agentVersion: call.agentVersion ?? null,
    capture,
    redact: row.captureRedact,
    status: outcome.status,
    errorCode: outcome.code ?? null,
    startedAt,
    durationMs,
    ttftMs: ttftOf(call, timeline, used),
    promptTokens: used?.prompt_tokens ?? 0,
    cachedTokens: used?.cached_tokens ?? 0,
    completionTokens: used?.completion_tokens ?? 0,
    costMicros: together === undefined ? null : costOf(row, durationMs - (timeline.attachedMs ?? 0), together),
    user: typeof body["user"] === "string" ? body["user"] : null,
    spans: spansOf(timeline, used, durationMs),
    conversationId: typeof named === "string" ? named : call.conversationId,
    metadata,
    parameters: parametersOf(body, capture),
    ...(capture === "full" ? contentOf(call, outcome.status < 400 ? output : undefined) : {}),
  };
}

/** The request's part of the replica's price. Finer than a micro-dollar: many requests cost less. */
export const costOf = ({ costPerHourMicros }: DeploymentRow, ms: number, together: number): number =>
  ((costPerHourMicros ?? 0) * Math.max(0, ms)) / HOUR_MS / Math.max(1, together);

/** A trace without content does not keep its request in memory. */
function contentOf({ path, body }: InferenceCall, output: CapturedOutput | undefined) {
  const shown = withoutBytes(body);
  const input = (shown as Readonly<Record<string, unknown>>)[INPUTS[path as ModelPath]];
  const content = () => {
    const read = output ? output.read() : { output: null };
    return read && { input, ...read };
  };
  return { content, bytes: sizeOf(shown) + (output?.bytes ?? 0) };
}

/** Worker times begin when the request is sent. Null: no token came. */
export function ttftOf(
  { path, body }: Pick<InferenceCall, "path" | "body">,
  { sentMs, firstMs }: Timeline,
  used: Usage | undefined,
): number | null {
  if (path === "/embeddings") return null;
  if (used?.timings && sentMs !== undefined && used.completion_tokens > 0)
    return sentMs + used.timings.template_ms + used.timings.prompt_ms;
  return body.stream ? (firstMs ?? null) : null;
}

function spansOf({ waitsFor, attachedMs, sentMs }: Timeline, used: Usage | undefined, durationMs: number): Span[] {
  const spans: Span[] = [];
  const add = (name: Span["name"], start: number, duration: number, attributes: Span["attributes"] = {}) =>
    void spans.push({ name, start_ms: rounded(start), duration_ms: rounded(duration), attributes });
  if (waitsFor) add(waitsFor, 0, attachedMs ?? durationMs);
  const { timings } = used ?? {};
  if (!used || !timings || sentMs === undefined) return spans;
  const { template_ms: template, prompt_ms: prompt, decode_ms: decode } = timings;
  const { prompt_tokens, cached_tokens, completion_tokens } = used;
  add("template", sentMs, template);
  if (prompt > 0) add("prompt", sentMs + template, prompt, { tokens: prompt_tokens, cached_tokens });
  if (decode > 0) add("decode", sentMs + template + prompt, decode, { tokens: completion_tokens });
  return spans;
}

const rounded = (ms: number) => Math.round(ms * 1000) / 1000;

/** Content has its own place. With `metadata` only plain values are kept: tools and stop strings are content. */
const NOT_PARAMETERS = new Set(["model", "messages", "prompt", "input", "metadata", "user"]);

function parametersOf(body: Readonly<Record<string, unknown>>, capture: Capture): Record<string, unknown> | null {
  if (capture === "none") return null;
  const isEmpty = (value: unknown) =>
    value === undefined || value === null || (typeof value === "object" && Object.keys(value).length === 0);
  const isKept = ([name, value]: [string, unknown]) =>
    !NOT_PARAMETERS.has(name) && !isEmpty(value) && (capture === "full" || typeof value !== "object");
  return Object.fromEntries(Object.entries(body).filter(isKept));
}

/** About the characters of a request, without writing it as JSON. */
function sizeOf(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 8;
  return Object.values(value).reduce<number>((sum, each) => sum + sizeOf(each), 16);
}
