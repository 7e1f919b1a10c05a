import { UsageError } from "../../../lib/errors.ts";
import { summaryOf } from "../../../lib/rewards/evaluation.ts";
import type { Evaluator, EvaluatorRun } from "../../../resources/quality/evaluators/schema.ts";
import { command, EXIT, type Group, wholeOf } from "../../args.ts";
import { connect } from "../../connect.ts";
import { readEvaluator, readRows } from "../../evaluators/input.ts";
import { printReport } from "../../evaluators/report.ts";
import { note, printJson, printResult } from "../../output.ts";
import { createProgress } from "../../progress.ts";
import { COMMON_FLAGS, listCommand } from "../../resource_commands.ts";

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
    const given = await readEvaluator(file);
    const { client } = await connect(where);
    const { status, body } = await client.call<Evaluator>("POST", "/v1/evaluators", {
      ...given,
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
