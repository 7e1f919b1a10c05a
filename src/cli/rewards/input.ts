/** Reads the input of `verk rewards test`: code, rows and parameters. */
import { existsSync } from "node:fs";
import { basename } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { LANGUAGES, type Language, MAX_SOURCE_BYTES, type Sample } from "../../lib/rewards/contract.ts";
import { detectLanguage, languageOfFile } from "../../lib/rewards/language.ts";
import { sampleFault, sampleOf } from "../../lib/rewards/samples.ts";
import { hasOddNumbers, parseExact } from "../../lib/rows/json.ts";
import { createLineReader, RowError } from "../../lib/rows/lines.ts";
import { nearest } from "../../lib/text/nearest.ts";
import { EXIT } from "../args.ts";
import { openSource } from "../transfer/source.ts";

const MAX_ROW_BYTES = 16 << 20;

export type Code = { name: string; language: Language; source: string };

export async function readCode(path: string, language: string | undefined): Promise<Code> {
  const file = await openSource(path);
  const parts: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of file.chunks()) {
      bytes += chunk.byteLength;
      if (bytes > MAX_SOURCE_BYTES)
        throw new UsageError(`${path} is longer than the limit of ${MAX_SOURCE_BYTES} bytes for reward code`);
      parts.push(chunk);
    }
  } finally {
    await file.close();
  }
  const source = textOf(path, Buffer.concat(parts));
  return { name: basename(path).replace(/\.\w+$/, ""), source, language: languageOf(path, source, language) };
}

function textOf(path: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new UsageError(`${path} is not valid UTF-8`);
  }
}

function languageOf(path: string, source: string, flag: string | undefined): Language {
  if (flag !== undefined) {
    const named = LANGUAGES.find((each) => each === flag);
    if (named) return named;
    const close = nearest(flag, LANGUAGES);
    throw new UsageError(
      `--language: expected ${LANGUAGES.join(", ")}, not ${JSON.stringify(flag)}.${close ? ` Did you mean ${close}?` : ""}`,
    );
  }
  const language = languageOfFile(path) ?? detectLanguage(source);
  if (language) return language;
  throw new UsageError(
    `${path}: the language is unknown. Use a name that ends with .py, .ts or .js, or give --language.`,
  );
}

/** A value that is not an existing file may be the name of a reward function. */
export const isFile = (path: string) => path === "-" || existsSync(path);
export const isCodeName = (path: string) => /\.(py|ts|js|mjs)$/i.test(path);

export type Rows = { samples: Sample[]; lines: number[] };

/** Reads rows with their line numbers, which count from 1 and include blank lines. */
export async function readRows(path: string, limit: number | undefined): Promise<Rows> {
  const rows: Rows = { samples: [], lines: [] };
  const reader = createLineReader({
    maxRowBytes: MAX_ROW_BYTES,
    format: undefined,
    visit(plain, text, line) {
      const row = hasOddNumbers(text) ? (parseExact(text) as typeof plain) : plain;
      const fault = sampleFault(row);
      if (fault) throw new RowError(line, `completion ${fault}`, "completion");
      rows.samples.push(sampleOf(row));
      rows.lines.push(line);
      return ""; // a row without a prompt can be scored too
    },
  });
  const file = await openSource(path);
  const isEnough = () => limit !== undefined && rows.samples.length >= limit;
  try {
    for await (const chunk of file.chunks()) {
      reader.push(chunk);
      if (isEnough()) break;
    }
    if (!isEnough()) reader.end();
  } catch (error) {
    if (!(error instanceof RowError)) throw error;
    throw new UsageError(`${path}: ${error.message}`, EXIT.failed);
  } finally {
    await file.close();
  }
  if (rows.samples.length === 0) throw new UsageError(`${path}: the file has no rows`, EXIT.failed);
  return { samples: rows.samples.slice(0, limit), lines: rows.lines.slice(0, limit) };
}

/** Reads `--param key=value`. The value is JSON if it parses as JSON, otherwise text. */
export function paramsOf(values: readonly string[]): Record<string, unknown> {
  const params: Record<string, unknown> = {};
  for (const each of values) {
    const [, key, value = ""] = /^([A-Za-z_]\w*)=(.*)$/s.exec(each) ?? [];
    if (key === undefined) throw new UsageError(`--param: expected KEY=VALUE, not ${JSON.stringify(each)}`);
    params[key] = parsedOr(value);
  }
  return params;
}

function parsedOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
