/**
 * OpenTelemetry spans of generative AI as traces: one trace for each span of a model call, and its tool calls as spans.
 * The names of attributes are those of the semantic conventions, the older forms included.
 */
import { z } from "zod";
import type { Ctx, Principal } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { type Turn, takingTurns } from "../../../../lib/turns.ts";
import { write } from "../../../../platform/db/db.ts";
import type { NewTrace } from "../new_trace.ts";
import { insertTraces, type NewRow, toRow } from "../store.ts";
import type { Span } from "../table.ts";
import { type Attributes, type OtelSpan, ResourceSpans, readSpan, toObject } from "./attributes.ts";
import { contentOf } from "./content.ts";

export const MAX_SPANS = 2_000;

/** Other fields of the format are ignored. */
export const ExportTraces = z
  .looseObject({ resourceSpans: z.array(z.unknown()).default([]) })
  .meta({ id: "OtlpExportTraceRequest" });

export const ExportedTraces = z
  .object({ partialSuccess: z.object({ rejectedSpans: z.int(), errorMessage: z.string() }).optional() })
  .meta({ id: "OtlpExportTraceResponse" });
export type ExportedTraces = z.infer<typeof ExportedTraces>;

type Caller = Pick<Principal, "workspaceId" | "keyId">;
type Received = { span: OtelSpan; resource: Attributes };

/**
 * A batch that is sent twice makes no trace twice, so a client may repeat one whose answer was an error. A batch of bad
 * form or of too many spans stores nothing.
 */
export async function ingest(
  ctx: Ctx,
  caller: Caller,
  { resourceSpans }: z.infer<typeof ExportTraces>,
): Promise<ExportedTraces> {
  const turn = takingTurns();
  const { received, rejected } = await read(resourceSpans, turn);
  const calls = received.filter(({ span }) => isModelCall(span));
  const tools = toolsOf(calls, received);
  const now = ctx.clock.now();
  const rows: NewRow[] = [];
  const store = () => write(ctx.db, (tx) => void insertTraces(tx, rows.splice(0)));
  for (const call of calls) {
    const pause = turn();
    if (pause) store();
    await pause;
    rows.push(toRow(ctx, toTrace(call, caller, tools.get(call.span) ?? []), now));
  }
  store();
  if (rejected === 0) return {};
  const errorMessage = "Some spans do not have the form of OTLP/JSON: traceId, spanId and times are required";
  return { partialSuccess: { rejectedSpans: rejected, errorMessage } };
}

async function read(
  resourceSpans: readonly unknown[],
  turn: Turn,
): Promise<{ received: Received[]; rejected: number }> {
  const received: Received[] = [];
  let rejected = 0;
  for (const value of resourceSpans) {
    await turn();
    const { data } = ResourceSpans.safeParse(value);
    if (!data) rejected++;
    const resource = toObject(data?.resource?.attributes ?? []);
    for (const each of data?.scopeSpans.flatMap(({ spans }) => spans) ?? []) {
      await turn();
      const span = readSpan(each);
      if (span) received.push({ span, resource });
      else rejected++;
    }
  }
  if (received.length <= MAX_SPANS) return { received, rejected };
  throw new AppError("schema", `resourceSpans: more than ${MAX_SPANS} spans: send smaller batches`, {
    param: "/resourceSpans",
  });
}

const OPERATIONS: Readonly<Record<string, true>> = {
  chat: true,
  text_completion: true,
  generate_content: true,
  embeddings: true,
};

function isModelCall({ attributes }: OtelSpan): boolean {
  const operation = attributes["gen_ai.operation.name"];
  if (typeof operation === "string") return Object.hasOwn(OPERATIONS, operation);
  return attributes["gen_ai.request.model"] !== undefined || attributes["gen_ai.response.model"] !== undefined;
}

/** A tool belongs to the last model call of the same OpenTelemetry trace that began before it. */
function toolsOf(calls: readonly Received[], received: readonly Received[]): Map<OtelSpan, Span[]> {
  const callsOf = Map.groupBy(
    calls.map(({ span }) => span).sort((a, b) => b.startedAt - a.startedAt),
    ({ traceId }) => traceId,
  );
  const tools = new Map<OtelSpan, Span[]>();
  for (const { span: tool } of received) {
    if (tool.attributes["gen_ai.operation.name"] !== "execute_tool") continue;
    const call = callsOf.get(tool.traceId)?.find(({ startedAt }) => startedAt <= tool.startedAt);
    if (call) tools.set(call, [...(tools.get(call) ?? []), toolSpan(tool, call)]);
  }
  return tools;
}

const toolSpan = (tool: OtelSpan, call: OtelSpan): Span => ({
  name: "tool_call",
  start_ms: tool.startedAt - call.startedAt,
  duration_ms: tool.durationMs,
  attributes: { tool: textOf(tool.attributes, "gen_ai.tool.name") ?? tool.name },
});

function toTrace({ span, resource }: Received, { workspaceId, keyId }: Caller, spans: Span[]): NewTrace {
  const { attributes } = span;
  const status = attributes["http.response.status_code"];
  const content = contentOf(span);
  return {
    workspaceId,
    source: "otlp",
    keyId,
    externalId: `${span.traceId}:${span.spanId}`,
    model: textOf(attributes, "gen_ai.response.model", "gen_ai.request.model"),
    agentId: textOf(attributes, "gen_ai.agent.id"),
    conversationId: textOf(attributes, "gen_ai.conversation.id", "session.id"),
    user: textOf(attributes, "user.id", "enduser.id", "langfuse.user.id"),
    costMicros: costOf(attributes["gen_ai.usage.cost"]),
    capture: content ? "full" : "metadata",
    status: isStatus(status) ? status : span.failed ? 500 : 200,
    errorCode: textOf(attributes, "error.type"),
    startedAt: span.startedAt,
    durationMs: span.durationMs,
    promptTokens: countOf(attributes, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    cachedTokens: countOf(attributes, "gen_ai.usage.cache_read.input_tokens"),
    completionTokens: countOf(attributes, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    spans,
    metadata: {
      otel_trace_id: span.traceId,
      otel_span_id: span.spanId,
      operation: attributes["gen_ai.operation.name"],
      provider: attributes["gen_ai.provider.name"] ?? attributes["gen_ai.system"],
      service: resource["service.name"],
      tags: attributes["langfuse.trace.tags"],
    },
    parameters: parametersOf(attributes),
    ...(content ? { content: () => content } : {}),
  };
}

/** Dollars as micro-dollars. */
const costOf = (usd: unknown): number | null =>
  typeof usd === "number" && Number.isFinite(usd) && usd >= 0 ? usd * 1e6 : null;

const isStatus = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) >= 100 && Number(value) < 600;

const REQUEST = "gen_ai.request.";
const parametersOf = (attributes: Attributes) =>
  Object.fromEntries(
    Object.entries(attributes)
      .filter(([name]) => name.startsWith(REQUEST) && name !== `${REQUEST}model`)
      .map(([name, value]) => [name.slice(REQUEST.length), value]),
  );

/** The first of these attributes that is a text. */
function textOf(attributes: Attributes, ...names: string[]): string | null {
  const text = names.map((name) => attributes[name]).find((value) => typeof value === "string" && value !== "");
  return text === undefined ? null : (text as string);
}

function countOf(attributes: Attributes, ...names: string[]): number {
  const count = Number(names.map((name) => attributes[name]).find((value) => typeof value === "number"));
  return Number.isSafeInteger(count) && count > 0 ? count : 0;
}
