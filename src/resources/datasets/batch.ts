/** A body of rows → what goes into the log: texts, and which of them change an earlier row. */
import type { Ctx } from "../../context.ts";
import { readBytes } from "../../http/body.ts";
import { AppError } from "../../lib/errors.ts";
import { jsonDepth } from "../../lib/json_depth.ts";
import { type Format, isRow, type Row } from "../../lib/rows/format.ts";
import { hasOddNumbers, isDoubtful, numberOf, parseExact } from "../../lib/rows/json.ts";
import { createLineReader, type Piece, RowError } from "../../lib/rows/lines.ts";
import { takingTurns } from "../../lib/turns.ts";
import { sha256Bytes } from "../../platform/files.ts";
import { OPS, type Op } from "../../platform/rows/file.ts";

export type Batch = {
  bodies: Uint8Array[];
  rows: number;
  bytes: number;
  /** Of the body as it was sent, where an Idempotency-Key asks for it; else empty. */
  sha256: string;
  /** Undefined: nothing but tombstones. */
  format: Format | undefined;
  /** By place in the batch, from 0. */
  changes: { index: number; op: Exclude<Op, "append">; target: number; param: string }[];
  expectedHead: number | undefined;
};

const PIECE_BYTES = 1 << 20; // checked in one go
const MAX_DEPTH = 66; // a row may have 64
const NDJSON = /^application\/(x-)?(ndjson|jsonl|jsonlines)\s*(;|$)/i;
const JSON_TYPE = /^application\/json\s*(;|$)/i;

export async function readBatch(ctx: Ctx, request: Request, format: Format | null): Promise<Batch> {
  const type = request.headers.get("content-type") ?? "application/json";
  const { max_append_bytes: maxBytes, max_row_bytes: maxRowBytes } = ctx.config.datasets;
  if (!NDJSON.test(type) && !JSON_TYPE.test(type))
    throw new AppError(
      "unsupported_media_type",
      `Send rows as application/json or application/x-ndjson, not ${type.slice(0, 80)}`,
    );
  const encoding = request.headers.get("content-encoding") ?? "identity";
  if (encoding !== "identity")
    throw new AppError("unsupported_media_type", `Send the rows as they are, not as ${encoding.slice(0, 40)}`);
  const bytes = await readBytes(request, maxBytes);
  const asLines = NDJSON.test(type);
  const { body, expectedHead } = asLines
    ? { body: bytes, expectedHead: headOf(digits(new URL(request.url).searchParams.get("expected_head_row"))) }
    : await linesOfJson(bytes);
  const sha256 = request.headers.has("idempotency-key") ? sha256Bytes(bytes) : "";
  return { ...(await checked(body, { format: format ?? undefined, maxRowBytes, asLines })), sha256, expectedHead };
}

async function checked(
  body: Uint8Array,
  { format, maxRowBytes, asLines }: { format: Format | undefined; maxRowBytes: number; asLines: boolean },
): Promise<Omit<Batch, "expectedHead" | "sha256">> {
  const changes: Batch["changes"] = [];
  let index = -1;
  const reader = createLineReader({
    maxRowBytes,
    format,
    visit(row, text, line) {
      index++;
      if (row["_op"] === undefined && row["_row_id"] === undefined) return undefined;
      const place: Place = asLines
        ? { param: `/${line - 1}`, name: `Line ${line}` }
        : { param: `/rows/${index}`, name: `rows.${index}` };
      const { param } = place;
      const op = opOf(row, place);
      const target = targetOf(row, op, place);
      if (target !== undefined && op !== "append") changes.push({ index, op, target, param: `${param}/_row_id` });
      return op === "tombstone" ? "" : withoutMarks(row, text);
    },
  });
  try {
    const pieces: Piece[] = [];
    const turn = takingTurns();
    for (let at = 0; at < body.byteLength; at += PIECE_BYTES) {
      await turn();
      pieces.push(...reader.push(body.subarray(at, at + PIECE_BYTES)));
    }
    pieces.push(...reader.end());
    if (reader.rows === 0) throw new AppError("schema", "rows: needs at least one row", { param: "/rows" });
    return {
      bodies: pieces.map((piece) => piece.body),
      rows: reader.rows,
      bytes: pieces.reduce((sum, piece) => sum + piece.body.byteLength, 0),
      format: reader.format,
      changes,
    };
  } catch (error) {
    throw error instanceof RowError ? refusal(error, asLines) : error;
  }
}

function refusal({ line, why, field }: RowError, asLines: boolean): AppError {
  const below = field === null ? "" : `/${field}`;
  return asLines
    ? new AppError("schema", `Line ${line}: ${why}`, { param: `/${line - 1}${below}` })
    : new AppError("schema", `rows.${line - 1}: ${why}`, { param: `/rows/${line - 1}${below}` });
}

type Place = { param: string; name: string };

function opOf(row: Row, { param, name }: Place): Op {
  const op = row["_op"] ?? "append";
  if (!OPS.includes(op as Op))
    throw new AppError("schema", `${name}: _op must be one of ${OPS.join(", ")}`, { param: `${param}/_op` });
  return op as Op;
}

function targetOf(row: Row, op: Op, { param, name }: Place): number | undefined {
  const target = row["_row_id"];
  if (op === "append") {
    if (target === undefined || target === null) return undefined;
    throw new AppError("schema", `${name}: _row_id goes with _op supersede or tombstone: a new row gets its id here`, {
      param: `${param}/_row_id`,
    });
  }
  if (!Number.isSafeInteger(target) || (target as number) < 1)
    throw new AppError("schema", `${name}: _row_id must name the row to ${op}, such as 7`, {
      param: `${param}/_row_id`,
    });
  return target as number;
}

function withoutMarks(row: Row, text: string): string {
  const plain = hasOddNumbers(text) ? (parseExact(text) as Row) : row;
  const { _op, _row_id, ...rest } = plain;
  return JSON.stringify(rest);
}

/** `{rows, expected_head_row}` → the same as lines. Numbers keep their digits. */
async function linesOfJson(bytes: Uint8Array): Promise<{ body: Uint8Array; expectedHead: number | undefined }> {
  const { rows, head } = parseBody(bytes);
  const turn = takingTurns();
  const lines: string[] = [];
  for (const [i, row] of rows.entries()) {
    if (!isRow(row)) throw new AppError("schema", `rows.${i}: must be an object`, { param: `/rows/${i}` });
    lines.push(JSON.stringify(row));
    await turn();
  }
  return { body: new TextEncoder().encode(`${lines.join("\n")}\n`), expectedHead: head };
}

function parseBody(bytes: Uint8Array): { rows: unknown[]; head: number | undefined } {
  let body: unknown;
  if (jsonDepth(bytes) > MAX_DEPTH)
    throw new AppError("schema", `rows: a row is nested more than ${MAX_DEPTH - 2} levels deep`, { param: "/rows" });
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    // A number beyond a double must reach the check of its row as it was written.
    body = hasOddNumbers(text) || isDoubtful(text) ? parseExact(text) : JSON.parse(text);
  } catch (cause) {
    throw new AppError("invalid_json", "The body is not valid JSON in UTF-8", { cause });
  }
  const given = isRow(body) ? body : {};
  if (!Array.isArray(given["rows"]))
    throw new AppError("schema", 'rows: must be a list, as in {"rows": [{"prompt": "…"}]}', { param: "/rows" });
  return { rows: given["rows"], head: headOf(given["expected_head_row"]) };
}

const digits = (text: string | null) => (text !== null && /^\d{1,16}$/.test(text) ? Number(text) : text);

function headOf(given: unknown): number | undefined {
  if (given === undefined || given === null) return undefined;
  const head = numberOf(given);
  if (!Number.isSafeInteger(head) || (head as number) < 0)
    throw new AppError("schema", "expected_head_row must be a whole number from 0 on", { param: "/expected_head_row" });
  return head as number;
}
