/** Validates a source: its columns, its number of rows, and whether its first rows are rows of a dataset. */
import { formatOf, rowFault } from "../../../lib/rows/format.ts";
import { createLineReader, RowError } from "../../../lib/rows/lines.ts";
import type { FromConnector, ToConnector } from "../../protocol.ts";
import { hiding } from "../hide.ts";
import type { Connector } from "../types.ts";
import { createShaping, renamedColumns, shapeOf } from "./mapping.ts";

type Task = Extract<ToConnector, { type: "validate" }>;
type Validated = Extract<FromConnector, { type: "validated" }>;
type Sample = { rows: number; error: string | null };

const SAMPLE_ROWS = 100;
const MAX_MESSAGE = 2000;
const MOST_COLUMNS = 20; // named in the message
const encoder = new TextEncoder();
const RENAME = "Rename a column with hub_config.column_mapping, or in the query";

export async function validate(task: Task, connector: Connector, stopping: AbortSignal): Promise<Validated> {
  await connector.test(stopping);
  const columns = renamedColumns(await connector.columns(stopping), task.source.hub_config?.column_mapping);
  const { rows, error } = isBilled(task) ? sampleOfNames(columns) : await readSample(task, connector, stopping);
  if (error !== null) {
    const shown = columns.slice(0, MOST_COLUMNS).join(", ") + (columns.length > MOST_COLUMNS ? ", …" : "");
    const said = columns.length === 0 ? error : `${error}. The columns are ${shown}. ${RENAME}`;
    const hidden = hiding(task.credentials, MAX_MESSAGE)(said);
    return { type: "validated", num_rows: rows, num_rows_exact: false, columns, error: hidden };
  }
  const counted = await count(connector, { ms: task.count_ms, atLeast: rows, stopping });
  return { type: "validated", ...counted, columns, error: null };
}

/** A warehouse charges for each query, so its rows are not read: the names of its columns must do. */
const isBilled = ({ source }: Task) => source.source_type === "snowflake" || source.source_type === "bigquery";

function sampleOfNames(columns: readonly string[]): Sample {
  const talk = [{ role: "user", content: "x" }];
  const turns = [{ from: "human", value: "x" }];
  const samples: Readonly<Record<string, unknown>> = { messages: talk, conversations: turns };
  const row = Object.fromEntries(columns.map((name) => [name, samples[name] ?? "x"]));
  const shape = shapeOf([row]);
  if (shape === "alpaca" || shape === "sharegpt") return { rows: 0, error: null };
  return { rows: 0, error: rowFault(row, formatOf(row))?.message ?? null };
}

async function readSample(task: Task, connector: Connector, signal: AbortSignal): Promise<Sample> {
  const { first, visit } = createShaping(task.source.hub_config?.column_mapping);
  const reader = createLineReader({ maxRowBytes: task.row_bytes, format: undefined, first, visit });
  try {
    for await (const { lines } of connector.rows({ signal })) {
      signal.throwIfAborted();
      const some = lines.slice(0, SAMPLE_ROWS - reader.rows);
      if (some.length > 0) reader.push(encoder.encode(`${some.join("\n")}\n`));
      reader.end();
      if (reader.rows >= SAMPLE_ROWS) break;
    }
  } catch (error) {
    if (!(error instanceof RowError)) throw error;
    return { rows: error.line, error: `Row ${error.line}: ${error.why}` };
  }
  const error = reader.rows === 0 ? "The source has no rows. A dataset needs at least one" : null;
  return { rows: reader.rows, error };
}

type Counting = { ms: number; atLeast: number; stopping: AbortSignal };

/** Returns the source's own count, or counts the rows. After `ms` the rows that were counted so far are the answer. */
async function count(connector: Connector, { ms, atLeast, stopping }: Counting) {
  const late = AbortSignal.timeout(ms);
  const signal = AbortSignal.any([late, stopping]);
  let rows = 0;
  try {
    const total = await connector.count(signal);
    if (total !== null) return { num_rows: total, num_rows_exact: true };
    for await (const { lines } of connector.rows({ signal })) {
      signal.throwIfAborted();
      rows += lines.length;
    }
    return { num_rows: rows, num_rows_exact: true };
  } catch (error) {
    if (late.aborted && !stopping.aborted) return { num_rows: Math.max(rows, atLeast), num_rows_exact: false };
    throw error;
  }
}
