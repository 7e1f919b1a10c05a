/** Reads the body of an append: the texts of its rows, and which of them change an earlier row. */
import type { Ctx } from "../../../../context.ts";
import { readBytes } from "../../../../http/body/read_bytes.ts";
import { checkFields } from "../../../../http/body/unknown_fields.ts";
import { callerOf } from "../../../../http/request_state.ts";
import { AppError } from "../../../../lib/errors.ts";
import { ListExcess, parseWithList } from "../../../../lib/json/list.ts";
import { queryOf } from "../../../../lib/net/request_target.ts";
import { type Format, isRow, type Row } from "../../../../lib/rows/format.ts";
import {
  hasOddNumbers,
  isDoubtful,
  numberOf,
  parseExact,
  refuseUnbounded,
  UnkeepableError,
} from "../../../../lib/rows/json.ts";
import { createLineReader, type Piece, RowError } from "../../../../lib/rows/lines.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { OPS, type Op } from "../../../../platform/rows/file.ts";
import { AppendRows } from "../schema.ts";

export type Batch = {
  bodies: Uint8Array[];
  rows: number;
  bytes: number;
  /** Hash of the body as it was sent. Empty for a request without an Idempotency-Key. */
  sha256: string;
  /** Undefined for a batch of tombstones only. */
  format: Format | undefined;
  /** `index` is the position in the batch, from 0. */
  changes: { index: number; op: Exclude<Op, "append">; target: number; param: string }[];
  expectedHead: number | undefined;
};

type Lines = { body: Uint8Array; expectedHead: number | undefined };

const PIECE_BYTES = 1 << 17; // checked without yielding to other work
const HASH_BYTES = 1 << 20;
const MOST_ROWS = 1_000_000; // for a JSON body; JSON lines have no limit of their own
const MOST_CHANGES = 20_000; // each is looked up and written in the one commit of the append
const REST_BYTES = 65_536; // of a JSON body, without its rows
const AROUND_BYTES = 1_024; // blanks and line feeds around a row
const encoder = new TextEncoder();
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
    throw new AppError(
      "unsupported_media_type",
      `Content-Encoding ${encoding.slice(0, 40)} is not supported: send the rows uncompressed`,
    );
  const workspaceId = callerOf(request)?.workspaceId ?? "";
  const bytes = await readBytes(ctx, request, { maxBytes, workspaceId });
  const asLines = NDJSON.test(type);
  const { body, expectedHead } = asLines
    ? { body: bytes, expectedHead: headOf(digits(queryOf(request).get("expected_head_row"))) }
    : await linesOfJson(request, bytes, maxRowBytes);
  const sha256 = request.headers.has("idempotency-key") ? await sha256InTurns(bytes) : "";
  return { ...(await checked(body, { format: format ?? undefined, maxRowBytes, asLines })), sha256, expectedHead };
}

/** A batch of rows that this server made. They are checked as rows of a request are. */
export async function batchOf(ctx: Ctx, rows: readonly Row[], format: Format | null): Promise<Batch> {
  const body = await joined(rows.map((row) => JSON.stringify(row)));
  const { max_row_bytes: maxRowBytes } = ctx.config.datasets;
  const batch = await checked(body, { format: format ?? undefined, maxRowBytes, asLines: false });
  return { ...batch, sha256: "", expectedHead: undefined };
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
      const at: RowLocation = asLines
        ? { param: `/${line - 1}`, name: `Line ${line}` }
        : { param: `/rows/${index}`, name: `rows.${index}` };
      const op = opOf(row, at);
      const target = targetOf(row, op, at);
      if (target !== undefined && op !== "append") changes.push({ index, op, target, param: `${at.param}/_row_id` });
      if (changes.length > MOST_CHANGES)
        throw new AppError(
          "schema",
          `rows: at most ${MOST_CHANGES} rows may change earlier rows; send several requests`,
          {
            param: "/rows",
          },
        );
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

type RowLocation = { param: string; name: string };

function opOf(row: Row, { param, name }: RowLocation): Op {
  const op = row["_op"] ?? "append";
  if (!OPS.includes(op as Op))
    throw new AppError("schema", `${name}: _op must be one of ${OPS.join(", ")}`, { param: `${param}/_op` });
  return op as Op;
}

function targetOf(row: Row, op: Op, { param, name }: RowLocation): number | undefined {
  const target = row["_row_id"];
  if (op === "append") {
    if (target === undefined || target === null) return undefined;
    throw new AppError("schema", `${name}: _row_id needs _op supersede or tombstone: the server numbers new rows`, {
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

/**
 * Turns `{rows, expected_head_row}` into JSON lines. Numbers keep their digits. Rows are parsed one by one, because
 * parsing 64 MiB at once would block the server for seconds.
 */
async function linesOfJson(request: Request, bytes: Uint8Array, maxRowBytes: number): Promise<Lines> {
  const lines: string[] = [];
  const element = (text: string, i: number) => {
    const row = parseRow(text, i);
    if (!isRow(row)) throw new AppError("schema", `rows.${i}: must be an object`, { param: `/rows/${i}` });
    lines.push(JSON.stringify(row));
    return null;
  };
  const limits = { maxElements: MOST_ROWS, maxElementBytes: maxRowBytes + AROUND_BYTES, maxRestBytes: REST_BYTES };
  const body = await parseWithList(bytes, { name: "rows", element, ...limits }).catch((cause) => {
    if (cause instanceof ListExcess) throw excess(cause, maxRowBytes);
    if (cause instanceof AppError) throw cause;
    throw new AppError("invalid_json", "The body is not valid JSON in UTF-8", { cause });
  });
  const fields = isRow(body) ? body : {};
  checkFields(request, AppendRows, { ...fields, rows: [] });
  if (!Array.isArray(fields["rows"]))
    throw new AppError("schema", 'rows: must be a list, as in {"rows": [{"prompt": "…"}]}', { param: "/rows" });
  return { body: await joined(lines), expectedHead: headOf(fields["expected_head_row"]) };
}

/** A number that a double cannot hold keeps its digits until its row is checked. */
function parseRow(text: string, i: number): unknown {
  try {
    refuseUnbounded(text);
  } catch (error) {
    if (!(error instanceof UnkeepableError)) throw error;
    throw new AppError("schema", `rows.${i}: ${error.message}`, { param: `/rows/${i}`, cause: error });
  }
  return hasOddNumbers(text) || isDoubtful(text) ? parseExact(text) : JSON.parse(text);
}

function excess({ limit, index }: ListExcess, maxRowBytes: number): AppError {
  if (limit === "maxElements")
    return new AppError("schema", `rows: a request takes at most ${MOST_ROWS} rows; send several`, { param: "/rows" });
  if (limit === "maxRestBytes")
    return new AppError("payload_too_large", `The body has more than ${REST_BYTES} bytes outside of rows`);
  return new AppError("schema", `rows.${index}: the row is longer than ${maxRowBytes} bytes (datasets.max_row_bytes)`, {
    param: `/rows/${index}`,
  });
}

async function joined(lines: readonly string[]): Promise<Uint8Array> {
  const turn = takingTurns();
  const parts: Uint8Array[] = [];
  for (let from = 0; from < lines.length; from += 1_000) {
    parts.push(encoder.encode(`${lines.slice(from, from + 1_000).join("\n")}\n`));
    await turn();
  }
  return Buffer.concat(parts);
}

async function sha256InTurns(bytes: Uint8Array): Promise<string> {
  const turn = takingTurns();
  const hash = new Bun.CryptoHasher("sha256");
  for (let at = 0; at < bytes.byteLength; at += HASH_BYTES) {
    hash.update(bytes.subarray(at, at + HASH_BYTES));
    await turn();
  }
  return hash.digest("hex");
}

const digits = (text: string | null) => (text !== null && /^\d{1,16}$/.test(text) ? Number(text) : text);

function headOf(value: unknown): number | undefined {
  if (value === undefined || value === null) return undefined;
  const head = numberOf(value);
  if (!Number.isSafeInteger(head) || (head as number) < 0)
    throw new AppError("schema", "expected_head_row: must be an integer of at least 0", {
      param: "/expected_head_row",
    });
  return head as number;
}
