/** Turns a new trace into its row: what the capture setting allows, with secrets removed. Writes rows and their text. */

import type { SQLQueryBindings } from "bun:sqlite";
import { getTableColumns, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { newId } from "../../../lib/ids.ts";
import { type Db, generationOf, prepared, type Tx } from "../../../platform/db/db.ts";
import * as secrets from "../../access/secrets/service.ts";
import { countTraces } from "./counts.ts";
import { firstWords } from "./first_words.ts";
import type { Content, NewTrace } from "./new_trace.ts";
import { Redactor, secretForms } from "./redact.ts";
import { insertText, textOf } from "./search/text.ts";
import { conversations, type Span, type TraceRow, traces } from "./table.ts";

const MAX_CONTENT = 1024 * 1024; // characters of JSON; larger content is not stored
const MAX_METADATA = 16;
const LONGEST_NAME = 200;
const MAX_TAGS = 16;
const LONGEST_TAG = 64;
const LONGEST_VALUE = 512;
const MAX_REDACTORS = 200;
/** Names that a client may give a conversation. Others are ignored. */
const CONVERSATION_ID = /^[\w.:@+=-]{1,200}$/;

export type NewRow = Omit<TraceRow, "seq">;

export function toRow(ctx: Ctx, trace: NewTrace, createdAt: number): NewRow {
  const clean = cleaner(ctx, trace);
  const content = trace.capture === "full" ? cleanContent(trace, clean) : undefined;
  const keepsMetadata = trace.capture !== "none";
  const row = base(trace, createdAt);
  return {
    ...row,
    // Names of outside programs may hold anything.
    ...(trace.source === "otlp" ? cleanNames(row, clean) : {}),
    capture: trace.capture === "full" && !content ? "metadata" : trace.capture,
    conversationId: keepsMetadata ? conversationOf(trace.conversationId, clean) : null,
    metadata: keepsMetadata ? pairsOf(trace.metadata, clean) : {},
    user: keepsMetadata ? userOf(trace, clean) : null,
    tags: keepsMetadata ? tagsOf(trace.metadata, clean) : [],
    parameters: keepsMetadata && trace.parameters ? parametersOf(trace.parameters, clean) : null,
    spans: spansOf(trace, content?.toolCalls ?? [], clean),
    input: content?.input ?? null,
    output: content?.output ?? null,
    inputStart: content ? firstWords(content.input) : null,
    outputStart: content ? firstWords(content.output) : null,
  };
}

function userOf({ user, metadata }: NewTrace, clean: Clean): string | null {
  const named = [user, metadata?.["user_id"], metadata?.["user"]].find(
    (each) => typeof each === "string" && each !== "",
  );
  return typeof named === "string" ? clean(named).slice(0, LONGEST_NAME) : null;
}

/** Texts of `metadata.tags`: a list, or one text with commas, as clients whose metadata holds texts alone send it. */
function tagsOf(metadata: NewTrace["metadata"], clean: Clean): string[] {
  const { tags } = metadata ?? {};
  const texts = typeof tags === "string" ? tags.split(",") : Array.isArray(tags) ? tags : [];
  const named = texts.flatMap((each) => (typeof each === "string" && each.trim() !== "" ? [each.trim()] : []));
  return [...new Set(named.slice(0, MAX_TAGS).map((each) => clean(each).slice(0, LONGEST_TAG)))];
}

const cleanNames = ({ model, errorCode, agentId }: ReturnType<typeof base>, clean: Clean) => ({
  model: cleanName(model, clean),
  errorCode: cleanName(errorCode, clean),
  agentId: cleanName(agentId, clean),
});

/** Cut only once it is clean: a half of a secret does not look like one. */
const cleanName = (name: string | null, clean: Clean) => (name === null ? null : clean(name).slice(0, LONGEST_NAME));

const base = (trace: NewTrace, createdAt: number) => ({
  id: trace.id ?? newId("trc", createdAt),
  workspaceId: trace.workspaceId,
  source: trace.source,
  deploymentId: trace.deploymentId ?? null,
  jobId: trace.jobId ?? null,
  step: trace.step ?? null,
  keyId: trace.keyId ?? null,
  model: trace.model ?? null,
  adapter: trace.adapter ?? null,
  agentId: trace.agentId ?? null,
  agentVersion: trace.agentVersion ?? null,
  externalId: trace.externalId ?? null,
  status: trace.status,
  errorCode: trace.errorCode ?? null,
  startedAt: trace.startedAt,
  durationMs: trace.durationMs,
  ttftMs: trace.ttftMs ?? null,
  promptTokens: trace.promptTokens ?? 0,
  cachedTokens: trace.cachedTokens ?? 0,
  completionTokens: trace.completionTokens ?? 0,
  costMicros: trace.costMicros ?? null,
  createdAt,
});

type Clean = <T>(value: T) => T;

/** Most traces have nothing to clean, and make nothing for it. */
function cleaner(ctx: Ctx, { workspaceId, redact = [] }: NewTrace): Clean {
  let clean: Clean | undefined;
  return (value) => {
    clean ??= redactorFor(ctx, redact).cleaner(secretsOf(ctx, workspaceId));
    return clean(value);
  };
}

export function redactorFor(ctx: Ctx, patterns: readonly string[]): Redactor {
  const { redactors } = ctx.state.traces;
  const key = JSON.stringify(patterns);
  const cached = redactors.get(key);
  if (cached) return cached;
  const redactor = new Redactor(patterns);
  if (redactors.size >= MAX_REDACTORS) redactors.clear();
  redactors.set(key, redactor);
  return redactor;
}

/** The rows are read once for each commit, and the values are opened again only after a secret was changed. */
export function secretsOf(ctx: Ctx, workspaceId: string): readonly string[] {
  const { secrets: cache } = ctx.state.traces;
  const generation = generationOf(ctx.db);
  const cached = cache.get(workspaceId);
  if (cached?.generation === generation) return cached.forms;
  const rows = secrets.sealedOf(ctx, workspaceId);
  const sealed = rows.map((row) => row.sealed).join();
  const forms = cached?.sealed === sealed ? cached.forms : secretForms(rows.map((row) => secrets.open(ctx, row)));
  cache.set(workspaceId, { generation, sealed, forms });
  return forms;
}

function cleanContent({ content }: NewTrace, clean: Clean): Content | undefined {
  const read = content?.();
  if (!read) return undefined;
  const { toolCalls = [], ...whole } = read;
  if (JSON.stringify(whole).length > MAX_CONTENT) return undefined;
  return { ...clean(whole), toolCalls: clean(toolCalls) };
}

/** A name that a pattern changes would join conversations that have nothing in common. */
function conversationOf(id: string | null | undefined, clean: Clean): string | null {
  return typeof id === "string" && CONVERSATION_ID.test(id) && clean(id) === id ? id : null;
}

/** The first pairs of the request that fit the rule for metadata, cut only once they are clean. */
function pairsOf(metadata: NewTrace["metadata"], clean: Clean): Record<string, string> {
  const pairs = Object.entries(metadata ?? {}).flatMap(([name, value]): [string, string][] => {
    const isPlain = typeof value === "string" || typeof value === "number" || typeof value === "boolean";
    return isPlain && name.length <= 64 ? [[name, String(value)]] : [];
  });
  const kept = clean(Object.fromEntries(pairs.slice(0, MAX_METADATA)));
  return Object.fromEntries(Object.entries(kept).map(([name, value]) => [name, value.slice(0, LONGEST_VALUE)]));
}

function parametersOf(parameters: Readonly<Record<string, unknown>>, clean: Clean): Record<string, unknown> | null {
  const isTooLarge = JSON.stringify(parameters).length > MAX_CONTENT;
  return isTooLarge ? null : clean(parameters);
}

/** Tools have names of clients: each name is cleaned. */
const spansOf = ({ spans, durationMs }: NewTrace, toolCalls: readonly string[], clean: Clean): Span[] => {
  const hasCalls = spans.some(({ name }) => name === "tool_call"); // calls that were timed
  return [
    ...spans.map((span) => (span.name === "tool_call" ? { ...span, attributes: clean(span.attributes) } : span)),
    ...(hasCalls ? [] : toolCalls).map((tool) => ({
      name: "tool_call" as const,
      start_ms: durationMs,
      duration_ms: 0,
      attributes: { tool },
    })),
  ];
};

const COLUMNS = Object.entries(getTableColumns(traces)).filter(([key]) => key !== "seq");

const insertRow = prepared((db: Db) => {
  const names = COLUMNS.map(([, { name }]) => `"${name}"`).join(", ");
  const marks = COLUMNS.map(() => "?").join(", ");
  return db.$client.prepare<unknown, SQLQueryBindings[]>(`INSERT OR IGNORE INTO traces (${names}) VALUES (${marks})`);
});

const touch = prepared((db: Db) => {
  const placeholder = (name: string) => sql`${sql.placeholder(name)}`;
  const values = {
    workspaceId: placeholder("workspaceId"),
    id: placeholder("id"),
    createdAt: placeholder("at"),
    lastAt: placeholder("at"),
    traceCount: 1,
    promptTokens: placeholder("prompt"),
    completionTokens: placeholder("completion"),
  };
  const set = {
    lastAt: sql`max(last_at, excluded.last_at)`,
    traceCount: sql`trace_count + 1`,
    promptTokens: sql`prompt_tokens + excluded.prompt_tokens`,
    completionTokens: sql`completion_tokens + excluded.completion_tokens`,
  };
  const target = [conversations.workspaceId, conversations.id];
  return db.insert(conversations).values(values).onConflictDoUpdate({ target, set }).prepare();
});

/** The result has the `seq` of each row. Undefined: the span was sent before. */
export function insertTraces(tx: Tx, rows: readonly NewRow[]): (number | undefined)[] {
  const seqs = rows.map((row) => insertTrace(tx, row));
  countTraces(
    tx,
    rows.filter((_, i) => seqs[i] !== undefined),
    1,
  );
  return seqs;
}

function insertTrace(tx: Tx, row: NewRow): number | undefined {
  const values = row as Record<string, unknown>;
  const bound = COLUMNS.map(([key, column]) => (values[key] === null ? null : column.mapToDriverValue(values[key])));
  const { changes, lastInsertRowid } = insertRow(tx).run(...(bound as SQLQueryBindings[]));
  if (changes === 0) return undefined;
  const seq = Number(lastInsertRowid);
  const { workspaceId, conversationId: id, createdAt: at } = row;
  insertText(tx, seq, workspaceId, textOf(row));
  if (id !== null) touch(tx).run({ workspaceId, id, at, prompt: row.promptTokens, completion: row.completionTokens });
  return seq;
}
