import { existsSync } from "node:fs";
import { basename } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { METHODS } from "../../lib/training/fields.ts";
import type { DatasetPreview } from "../../resources/data/datasets/preview.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS, wholeOf } from "../args.ts";
import type { Client } from "../client.ts";
import { connect } from "../connect.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { learnedText } from "../jobs/dry_run.ts";
import { count, note, print, printJson } from "../output.ts";
import { createProgress } from "../progress.ts";
import { openSource } from "../transfer/source.ts";
import { mustFind } from "./find.ts";
import { labelOfFile, sendRows } from "./push.ts";

export const preview = command({
  summary: "Show rows as a model reads them, the trained part between « and », with token counts and statistics",
  takes: ["dataset"],
  flags: {
    ...SERVER_FLAGS,
    model: { type: "string", value: "MODEL", doc: "Model whose chat template and tokens count, such as verk-tiny" },
    method: {
      type: "string",
      value: "METHOD",
      choices: METHODS,
      doc: "grpo, rloo, distill, sft, kto, dpo or orpo (default: by the format of the rows)",
    },
    limit: { type: "string", value: "N", doc: "Rows to show (default 5)" },
    "max-length": { type: "string", value: "N", doc: "Count rows with more tokens than this (default 1024)" },
    json: JSON_FLAG,
  },
  examples: [
    "verk datasets preview support --model verk-tiny",
    "verk datasets preview support.jsonl --model verk-tiny --limit 2",
  ],
  exits: {
    1: "failed: there is no such dataset or model, or a row is wrong",
    [INTERRUPTED]: "interrupted",
  },
  async run({ model, method, limit, "max-length": maxLength, json, ...where }, target = "") {
    if (model === undefined) throw new UsageError("--model: give the model whose template counts, such as verk-tiny");
    const [rows, longest] = [wholeOf("limit", limit), wholeOf("max-length", maxLength)];
    const body = {
      model,
      ...(method === undefined ? {} : { method }),
      ...(rows === undefined ? {} : { limit: rows }),
      ...(longest === undefined ? {} : { max_length: longest }),
    };
    const { client } = await connect(where);
    return await interruptible(async (signal) => {
      const { id, discard } = await rowsOf(client, target, signal);
      try {
        const answer = await client.call<DatasetPreview>("POST", `/v1/datasets/${id}/preview`, body, { signal });
        if (json) printJson(answer.body);
        else for (const line of linesOf(answer.body)) print(line);
      } finally {
        await discard();
      }
      return EXIT.ok;
    });
  },
});

type Rows = { id: string; discard: () => Promise<void> };

/** A file is uploaded for the preview, and deleted again unless the server had this content before. */
async function rowsOf(client: Client, target: string, signal: AbortSignal): Promise<Rows> {
  if (!existsSync(target)) return { id: (await mustFind(client, target)).id, discard: async () => {} };
  const source = await openSource(target);
  const progress = createProgress();
  try {
    const label = labelOfFile(basename(target));
    const { status, body } = await sendRows(client, { label, source, progress, signal });
    if (body.detected) note(body.detected.summary);
    const discard = async () => void (await client.call("DELETE", `/v1/datasets/${body.id}`));
    return { id: body.id, discard: status === 201 ? discard : async () => {} };
  } finally {
    progress.end();
    await source.close();
  }
}

export function linesOf({ rows, statistics, method, model }: DatasetPreview): string[] {
  const { tokens, duplicates, max_length: longest } = statistics;
  const shown = rows.flatMap(({ row, sequences, error }) =>
    error === null
      ? sequences.flatMap(({ name, tokens: length, parts }) => [
          `row ${row}, ${name}, ${count(length, "token")}:`,
          ...learnedText(parts)
            .split("\n")
            .map((line) => `  ${line}`),
        ])
      : [`row ${row}: ${error}`],
  );
  const measured =
    statistics.measured_rows < statistics.rows ? `, measured on ${statistics.measured_rows} of them` : "";
  return [
    ...shown,
    `${count(statistics.rows, "row")} for ${method} with ${model}${measured}`,
    `tokens: median ${tokens.p50}, 95 % up to ${tokens.p95}, longest ${tokens.max}; ${count(statistics.over_max_length, "row")} over ${longest}`,
    `duplicates: ${count(duplicates.exact, "equal row")}, ${count(duplicates.prompt, "equal prompt")}`,
    ...(statistics.unreadable_rows === 0
      ? []
      : [`rejected by the template: ${count(statistics.unreadable_rows, "row")}`]),
  ];
}
