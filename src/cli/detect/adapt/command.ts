import { mkdirSync, statSync } from "node:fs";
import { UsageError } from "../../../lib/errors.ts";
import type { Config } from "../../../platform/config/config.ts";
import * as adaptations from "../../../resources/detection/adaptation.ts";
import type { ModelName } from "../../../workers/protocol_detector.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, JSON_FLAG } from "../../args.ts";
import { columns, note, print, printJson } from "../../output.ts";
import { settingsOf } from "../../settings.ts";
import { takersOf } from "../detector.ts";
import { chosenModels, EXITS } from "../input.ts";
import { withDetector } from "../run.ts";
import { type Comparison, compare, type Figures, objections, shortcuts } from "./decide.ts";
import { gather, type Labelled, labelledFiles } from "./gather.ts";
import { type Adapted, crossValidate, type Learned, learn, scoresOf, setAside } from "./learn.ts";

export const adapt = command({
  summary: "Adapt the detector to your own files, in the folders generated/ and real/; a subfolder is a source",
  takes: ["dir?"],
  flags: {
    audio: { type: "boolean", doc: "Evaluate or adapt with speech instead of images" },
    reset: { type: "boolean", doc: "Go back to the models as shipped; takes no folder" },
    data: DATA_FLAG,
    config: CONFIG_FLAG,
    json: { ...JSON_FLAG, doc: "Print one JSON object per file; eval, adapt: all figures as one object" },
  },
  examples: ["verk detect adapt ./labelled", "verk detect adapt --reset"],
  exits: EXITS,
  async run({ audio, reset, json, ...where }, dir) {
    const config = settingsOf(where); // root stays root: the command reads files of the calling user
    if (reset && dir !== undefined) throw new UsageError("detect adapt: --reset takes no folder");
    if (reset) return goBack(config, json);
    if (dir === undefined) throw new UsageError("detect adapt: dir is missing. See `verk help detect adapt`.");
    const files = await labelledFiles(dir);
    requireOwner(config.data_dir);
    return await withDetector(
      config,
      async (detector, signal) => {
        const models = chosenModels(undefined, detector.versions, takersOf(audio ? "audio" : "image"));
        const labelled = await gather(detector, dir, files, { models, robustness: false, heatmap: false, signal });
        return decide(config, labelled, { models, json });
      },
      { features: true },
    );
  },
});

function goBack({ data_dir }: Config, json: boolean): number {
  const number = adaptations.currentNumber(data_dir) ?? null;
  if (number !== null) requireOwner(data_dir);
  adaptations.reset(data_dir);
  if (json) printJson({ object: "detection_adaptation", adapted: false, number: null, replaced: number });
  else print(number === null ? "The models are in use as shipped already." : "The models are in use as shipped.");
  return EXIT.ok;
}

/** Files of another owner could not be read by the server. */
function requireOwner(dataDir: string) {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const { uid } = statSync(dataDir);
  if (uid !== process.getuid?.())
    throw new UsageError(
      `detect adapt: ${dataDir} belongs to the user with the id ${uid}. Run the command as that user, or choose another directory with --data.`,
    );
}

type Options = { models: readonly ModelName[]; json: boolean };

function decide({ data_dir }: Config, labelled: Labelled, { models, json }: Options): number {
  const { samples, bases, origins } = labelled;
  const stored = adaptations.readCurrent(data_dir)?.models ?? {};
  const current: Adapted = Object.fromEntries(
    models.flatMap((name) => (stored[name]?.base === bases[name] ? [[name, stored[name]]] : [])),
  );
  const { learning, kept, bySource } = setAside(samples);
  const how = { models, bases, bySource };
  const learned = learn(learning, how);
  const views = samples[0]?.views.map(({ view }) => view) ?? [];
  const validated = compare(crossValidate(learning, how, current), views);
  const tested = compare(scoresOf(kept, current, learned.adapted), views);
  const reasons = objections(tested);
  const warnings = [
    ...(bySource
      ? []
      : ["Too few sources (at least 4 of each label): files of one source are in all parts, so the figures flatter."]),
    ...shortcuts(origins).map(
      (each) => `The labels differ in more than their origin: ${each}. Give both the same treatment.`,
    ),
  ];
  const number =
    reasons.length === 0
      ? adaptations.keep(data_dir, { ...stored, ...learned.adapted }, Date.now()).number
      : (adaptations.currentNumber(data_dir) ?? null);
  const changes = changesOf(learned);
  const figures = { cross_validated: validated, kept: tested };
  if (json) {
    const files = {
      generated: samples.filter(({ isAi }) => isAi).length,
      failed: labelled.failed,
      left_out: labelled.leftOut,
    };
    const result = {
      adapted: reasons.length === 0,
      number,
      by_source: bySource,
      files,
      changes,
      figures,
      reasons,
      warnings,
    };
    printJson({ object: "detection_adaptation", ...result });
  } else {
    for (const warning of warnings) note(`Warning: ${warning}`);
    print(
      comparisonText([
        { title: "cross-validated", comparisons: validated },
        { title: "kept aside", comparisons: tested },
      ]),
    );
    print(
      reasons.length === 0
        ? `\nAdaptation ${number} is in use: ${changes.join(", ")}. \`verk detect adapt --reset\` goes back to the models as shipped.`
        : `\nNothing was changed: ${reasons.join("; ")}.`,
    );
  }
  return reasons.length === 0 ? EXIT.ok : EXIT.check;
}

const changesOf = ({ fits }: Learned): string[] =>
  Object.entries(fits).map(([name, { strategy }]) =>
    strategy === "recalibrate" ? `${name}: calibration` : `${name}: calibration and last layer`,
  );

const ROWS: readonly [name: string, key: keyof Figures][] = [
  ["AUROC", "auroc"],
  ["log loss", "log_loss"],
  ["balanced accuracy", "balanced_accuracy"],
  ["calibration error (ECE)", "ece"],
  ["precision of the ai tier", "ai_precision"],
  ["recall of the ai tier", "ai_recall"],
];

const figure = (value: number | null) => (value === null || Number.isNaN(value) ? "-" : value.toFixed(3));

/** One block for each part of the files and each view: a table with the columns before and after. */
function comparisonText(parts: readonly { title: string; comparisons: readonly Comparison[] }[]): string {
  const blocks = parts.flatMap(({ title, comparisons }) =>
    comparisons.map(({ view, files, before, after }) => {
      const rows = ROWS.map(([name, key]) => [`  ${name}`, figure(before[key]), figure(after[key])]);
      return columns([[`${title}, ${files} files, ${view}`, "BEFORE", "AFTER"], ...rows]).join("\n");
    }),
  );
  return blocks.join("\n\n");
}
