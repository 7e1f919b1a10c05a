import { errorText } from "../../../lib/error_text.ts";
import { UsageError } from "../../../lib/errors.ts";
import { isObject } from "../../../lib/json/object.ts";
import { summaryOf } from "../../../lib/rewards/evaluation.ts";
import { languageOfFile } from "../../../lib/rewards/language.ts";
import { createLineReader, RowError } from "../../../lib/rows/lines.ts";
import type { Evaluator, EvaluatorRun } from "../../../resources/quality/evaluators/schema.ts";
import { command, EXIT, type Group, wholeOf } from "../../args.ts";
import { connect } from "../../connect.ts";
import { note, paint, plain, print, printJson, printResult, printTable } from "../../output.ts";
import { createProgress } from "../../progress.ts";
import { COMMON_FLAGS, listCommand } from "../../resource_commands.ts";
import { readCode } from "../../rewards/input.ts";
import { openSource } from "../../transfer/source.ts";

const BATCH = 64;

const push = command({
  summary: "Store an evaluator; an existing name gets a new version",
  takes: ["file"],
  flags: {
    ...COMMON_FLAGS,
    name: { type: "string", value: "NAME", doc: "Name of the evaluator (default: the file's own)" },
    threshold: { type: "string", value: "SCORE", doc: "A score of at least this passes" },
  },
  examples: ["verk evaluators push helpful.json", "verk evaluators push accuracy.py --threshold 1"],
  fields: { pass_threshold: "--threshold" },
  async run({ json, name, threshold, ...where }, file = "") {
    const fields = await readEvaluator(file);
    const { client } = await connect(where);
    const { status, body } = await client.call<Evaluator>("POST", "/v1/evaluators", {
      ...fields,
      ...(name === undefined ? {} : { name }),
      ...(threshold === undefined ? {} : { pass_threshold: scoreOf(threshold) }),
    });
    printResult(json, body, { result: body.id });
    note(`${status === 200 ? "This evaluator was stored before: " : ""}${body.name}@${body.version}, ${body.kind}.`);
    return EXIT.ok;
  },
});

function scoreOf(text: string): number {
  const score = Number(text);
  if (text.trim() !== "" && Number.isFinite(score)) return score;
  throw new UsageError(`--threshold: expected a number such as 1 or 0.5, not ${JSON.stringify(text)}`);
}

const list = listCommand({
  summary: "List the newest version of each evaluator",
  examples: ["verk evaluators list", "verk evaluators list --all --json"],
  path: "/v1/evaluators",
  flags: { all: { type: "boolean", doc: "List every version" } },
  query: ({ all }) => ({ latest: String(!all) }),
  columns: {
    ID: ({ id }: Evaluator) => id,
    NAME: ({ name, version }) => `${name}@${version}`,
    KIND: ({ kind }) => kind,
    THRESHOLD: ({ pass_threshold }) => (pass_threshold === null ? "-" : String(pass_threshold)),
    CREATED: ({ created_at }) => created_at,
  },
  empty: "No evaluators. Store one with `verk evaluators push FILE`.",
});

const run = command({
  summary: "Score rows with an evaluator of the server",
  takes: ["evaluator"],
  flags: {
    ...COMMON_FLAGS,
    rows: {
      type: "string",
      value: "FILE",
      doc: "JSON Lines file; each row has output, and input, reference or other columns; - is standard input",
    },
    limit: { type: "string", value: "N", doc: "Only the first N rows" },
  },
  examples: ["verk evaluators run helpful --rows answers.jsonl", "verk evaluators run helpful@2 --rows - --json"],
  exits: { 0: "at least one row has a score", 1: "no row has a score, or the server cannot be reached" },
  async run({ json, rows: path, limit, ...where }, evaluator = "") {
    if (path === undefined) throw new UsageError("evaluators run: --rows FILE is missing");
    const most = wholeOf("limit", limit);
    if (most === 0) throw new UsageError("--limit: expected at least 1");
    const { rows, lines } = await readRows(path, most);
    const { client } = await connect(where);
    const results: EvaluatorRun["results"] = [];
    const progress = createProgress();
    let id = evaluator;
    try {
      for (let from = 0; from < rows.length; from += BATCH) {
        const sent = { rows: rows.slice(from, from + BATCH) };
        const { body } = await client.call<EvaluatorRun>("POST", `/v1/evaluators/${encodeURIComponent(id)}/run`, sent);
        id = body.evaluator_id; // a new version that comes meanwhile does not judge the rest
        results.push(...body.results.map((each) => ({ ...each, index: each.index + from })));
        if (rows.length > BATCH) progress.show("evaluating", Math.min(1, (from + BATCH) / rows.length));
      }
    } finally {
      progress.end();
    }
    const summary = summaryOf(results);
    if (json) printJson({ object: "evaluator_run", evaluator_id: id, results, summary });
    else printReport(results, summary, lines);
    return summary.scored === 0 ? EXIT.failed : EXIT.ok;
  },
});

export const evaluators: Group = {
  summary: "Evaluators: store checks, code and judges on a server, and score rows with them",
  subcommands: { push, list, run },
};

const MAX_ROW_BYTES = 16 << 20;

/** The body of the request: a JSON file has it, and a code file is an evaluator of the kind code. */
async function readEvaluator(path: string): Promise<Record<string, unknown>> {
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

type Rows = { rows: Record<string, unknown>[]; lines: number[] };

/** Rows with their line numbers. The names of datasets work too: prompt, completion and answer. */
async function readRows(path: string, limit: number | undefined): Promise<Rows> {
  const content: Rows = { rows: [], lines: [] };
  const reader = createLineReader({
    maxRowBytes: MAX_ROW_BYTES,
    format: undefined,
    visit(row, _text, line) {
      const evaluated = rowOf(row);
      if (typeof evaluated["output"] !== "string")
        throw new RowError(line, "needs the text output or completion", "output");
      content.rows.push(evaluated);
      content.lines.push(line);
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
  if (content.rows.length === 0) throw new UsageError(`${path}: the file has no rows`, EXIT.failed);
  return { rows: content.rows.slice(0, limit), lines: content.lines.slice(0, limit) };
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

const TEXT_CHARS = 120;

type Result = EvaluatorRun["results"][number];
type Summary = EvaluatorRun["summary"];

function printReport(results: readonly Result[], summary: Summary, lines: readonly number[]) {
  const rows = results.map((each) => [
    String(lines[each.index] ?? "-"),
    figure(each.score),
    each.passed === null ? "-" : each.passed ? "yes" : "no",
    plain(each.label ?? "-"),
    each.latency_ms.toFixed(1),
    each.error === null ? shortened(each.reason ?? "") : paint("red", shortened(each.error)),
  ]);
  printTable(["LINE", "SCORE", "PASSED", "LABEL", "MS", "REASON"], rows, "No rows.");
  print("");
  const { count, scored, failed, mean, pass_rate: rate } = summary;
  print(`scores   ${scored} of ${count} rows; mean ${figure(mean)}`);
  print(`passed   ${rate === null ? "- (no threshold)" : `${(100 * rate).toFixed(1)} %`}`);
  print(`errors   ${failed === 0 ? "none" : failed}`);
}

const figure = (value: number | null) => (value === null ? "-" : String(Number(value.toPrecision(6))));
const shortened = (text: string) => plain(text.replaceAll(/\s+/g, " ").slice(0, TEXT_CHARS));
