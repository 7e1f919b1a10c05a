/** Reads the input of `verk evaluators`: a file with settings or code, and rows. */

import { errorText } from "../../lib/error_text.ts";
import { UsageError } from "../../lib/errors.ts";
import { isObject } from "../../lib/json/object.ts";
import { languageOfFile } from "../../lib/rewards/language.ts";
import { createLineReader, RowError } from "../../lib/rows/lines.ts";
import { EXIT } from "../args.ts";
import { readCode } from "../rewards/input.ts";
import { openSource } from "../transfer/source.ts";

const MAX_ROW_BYTES = 16 << 20;

/** The body of the request: a JSON file has it, and a code file is an evaluator of the kind code. */
export async function readEvaluator(path: string): Promise<Record<string, unknown>> {
  if (languageOfFile(path)) {
    const { name, source, language } = await readCode(path, undefined);
    return { name, kind: "code", config: { source, language } };
  }
  const file = await openSource(path);
  const parts: Uint8Array[] = [];
  try {
    for await (const chunk of file.chunks()) parts.push(chunk);
  } finally {
    await file.close();
  }
  const value = parsed(path, new TextDecoder().decode(Buffer.concat(parts)));
  if (isObject(value)) return value as Record<string, unknown>;
  throw new UsageError(`${path}: expected a JSON object with name, kind and config`, EXIT.failed);
}

function parsed(path: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const why = errorText(cause);
    throw new UsageError(
      `${path}: is not JSON (${why}). Use a JSON file with name, kind and config, or code in a .py, .ts or .js file.`,
      EXIT.failed,
      { cause },
    );
  }
}

export type Rows = { rows: Record<string, unknown>[]; lines: number[] };

/** Rows with their line numbers. The names of datasets work too: prompt, completion and answer. */
export async function readRows(path: string, limit: number | undefined): Promise<Rows> {
  const found: Rows = { rows: [], lines: [] };
  const reader = createLineReader({
    maxRowBytes: MAX_ROW_BYTES,
    format: undefined,
    visit(row, _text, line) {
      const evaluated = rowOf(row);
      if (typeof evaluated["output"] !== "string")
        throw new RowError(line, "needs the text output or completion", "output");
      found.rows.push(evaluated);
      found.lines.push(line);
      return ""; // such a row need not have the format of a dataset
    },
  });
  const file = await openSource(path);
  try {
    for await (const chunk of file.chunks()) reader.push(chunk);
    reader.end();
  } catch (error) {
    if (!(error instanceof RowError)) throw error;
    throw new UsageError(`${path}: ${error.message}`, EXIT.failed);
  } finally {
    await file.close();
  }
  if (found.rows.length === 0) throw new UsageError(`${path}: the file has no rows`, EXIT.failed);
  return { rows: found.rows.slice(0, limit), lines: found.lines.slice(0, limit) };
}

function rowOf(row: Record<string, unknown>): Record<string, unknown> {
  const reference = row["reference"] ?? row["answer"];
  return {
    ...row,
    input: row["input"] ?? row["prompt"] ?? "",
    output: row["output"] ?? row["completion"],
    ...(reference === undefined || reference === null ? {} : { reference: textOf(reference) }),
  };
}

const textOf = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));
