import { mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { command, EXIT, type Group, JSON_FLAG } from "../args.ts";
import { adapt } from "../detect/adapt/command.ts";
import type { Detector, Outcome } from "../detect/detector.ts";
import { evaluation } from "../detect/eval.ts";
import { findFiles, type InputFile } from "../detect/files.ts";
import { chosenModels, EXITS, FLAGS, namedModels, thresholdOf } from "../detect/input.ts";
import { type Columns, type Counts, count, headerOf, jsonOf, lineOf, newCounts, summaryOf } from "../detect/report.ts";
import { outcomes, withDetector } from "../detect/run.ts";
import { note, print, printJson } from "../output.ts";
import { settingsOf } from "../settings.ts";

const files = command({
  summary: "Score images and speech without a server; a folder includes everything below it",
  takes: ["file…"],
  flags: {
    ...FLAGS,
    robustness: {
      type: "boolean",
      doc: "Also score re-encoded and rescaled versions of images, to see whether the prediction changes",
    },
    heatmap: {
      type: "string",
      value: "DIR",
      doc: "Also write a transparent PNG for each image that shows where the evidence is, to lay over the image",
    },
    json: { ...JSON_FLAG, doc: "Print one JSON object per file; eval, adapt: all figures as one object" },
  },
  examples: ["verk detect photo.jpg", "verk detect ~/pictures --robustness", "verk detect upload.png --threshold 0.85"],
  exits: EXITS,
  async run({ models, threshold, robustness, heatmap, json, ...where }, ...paths) {
    const named = namedModels(models);
    const limit = thresholdOf(threshold);
    const config = settingsOf(where); // root stays root: the command reads files of the calling user
    const files = await findFiles(paths);
    return await withDetector(config, async (detector, signal) => {
      const columns: Columns = { models: chosenModels(named, detector.versions), robustness };
      const draw = heatmap === undefined ? undefined : heatmapWriter(heatmap);
      const counts = await score(detector, { files, columns, limit, json, signal, draw });
      return exitOf(counts, threshold !== undefined);
    });
  },
});

type Work = {
  files: readonly InputFile[];
  columns: Columns;
  limit: number;
  json: boolean;
  signal: AbortSignal;
  draw: ((outcome: Outcome) => void) | undefined;
};

async function score(detector: Detector, { files, columns, limit, json, signal, draw }: Work): Promise<Counts> {
  const counts = newCounts();
  let isFirst = true;
  for await (const outcome of outcomes(detector, files, { ...columns, heatmap: draw !== undefined, signal })) {
    draw?.(outcome);
    count(counts, outcome, limit);
    if (outcome.status === "left_out") continue;
    if (json) printJson(jsonOf(outcome, limit, Date.now()));
    else {
      if (isFirst) print(headerOf(columns));
      print(lineOf(outcome, columns));
    }
    isFirst = false;
  }
  if (!json && files.length !== 1) note(summaryOf(counts));
  return counts;
}

/** A score above the threshold wins over a failed file. */
function exitOf({ predictions, above, failed }: Counts, isCheck: boolean): number {
  if (isCheck && above > 0) return EXIT.check;
  return failed > 0 || predictions.size === 0 ? EXIT.failed : EXIT.ok;
}

export const detect: Group = {
  summary: "Detect generated images and speech. A score is evidence about a file, not proof about a person",
  subcommands: { eval: evaluation, adapt },
  otherwise: files,
};

/** Returns a function that writes the heat map of one outcome. Two files of one name get two pictures. */
function heatmapWriter(dir: string): (outcome: Outcome) => void {
  mkdirSync(dir, { recursive: true });
  const taken = new Map<string, number>();
  return (outcome) => {
    if (outcome.status !== "scored" || !outcome.scored.heatmap) return;
    const name = basename(outcome.file);
    const earlier = taken.get(name) ?? 0;
    taken.set(name, earlier + 1);
    const suffix = earlier === 0 ? "" : `.${earlier + 1}`;
    writeFileSync(join(dir, `${name}${suffix}.heatmap.png`), Buffer.from(outcome.scored.heatmap.png, "base64"));
  };
}
