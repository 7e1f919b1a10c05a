import { existsSync, statSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { command, EXIT, JSON_FLAG } from "../args.ts";
import { note, print, printJson } from "../output.ts";
import { settingsOf } from "../settings.ts";
import { type Detector, type Outcome, type ScoreOptions, takersOf } from "./detector.ts";
import { evaluationText } from "./eval_report.ts";
import { evaluate, type Sample } from "./evaluation.ts";
import { findFiles, type InputFile } from "./files.ts";
import { chosenModels, EXITS, FLAGS, namedModels, thresholdOf } from "./input.ts";
import { oneLine } from "./report.ts";
import { outcomes, withDetector } from "./run.ts";

const LABELS = ["ai", "real"] as const;
const SHOWN_FAILURES = 5;

export const evaluation = command({
  summary: "Evaluate the detector on your own files, in the folders ai/ and real/; a subfolder is a source",
  takes: ["dir"],
  flags: {
    ...FLAGS,
    audio: { type: "boolean", doc: "Evaluate or adapt with speech instead of images" },
    json: { ...JSON_FLAG, doc: "Print one JSON object per file; eval, adapt: all figures as one object" },
  },
  examples: ["verk detect eval ./labelled", "verk detect eval ./voices --audio --json > figures.json"],
  exits: EXITS,
  async run({ models, threshold, audio, json, ...where }, dir = "") {
    const takers = takersOf(audio ? "audio" : "image");
    const named = namedModels(models);
    const unfit = named?.find((model) => !takers.includes(model));
    if (unfit)
      throw new UsageError(`--models: ${unfit} reads ${audio ? "images. Leave out --audio." : "speech. Add --audio."}`);
    const limit = thresholdOf(threshold);
    const config = settingsOf(where); // root stays root: the command reads files of the calling user
    const files = await labelled(dir);
    return await withDetector(config, async (detector, signal) => {
      const chosen = chosenModels(named, detector.versions, takers);
      const gathered = await gather(detector, dir, files, {
        models: chosen,
        robustness: !audio,
        heatmap: false,
        signal,
      });
      return printFigures(gathered, { limit, json, versions: detector.versions, chosen });
    });
  },
});

async function labelled(dir: string): Promise<InputFile[]> {
  const folders = LABELS.map((label) => join(dir, label));
  const isFolder = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  if (!existsSync(dir)) throw new UsageError(`Cannot read ${dir}: there is no such folder`);
  const missing = folders.filter((path) => !isFolder(path));
  if (missing.length > 0)
    throw new UsageError(
      `detect eval: there is no folder ${missing.join(" and no ")}. Put generated files into ${folders[0]} and real files into ${folders[1]}.`,
    );
  return await findFiles(folders);
}

type Failure = { file: string; error: string; code: string };
type Gathered = { samples: Sample[]; failures: Failure[]; leftOut: number };

async function gather(
  detector: Detector,
  dir: string,
  files: readonly InputFile[],
  options: ScoreOptions,
): Promise<Gathered> {
  const gathered: Gathered = { samples: [], failures: [], leftOut: 0 };
  for await (const outcome of outcomes(detector, files, options)) {
    if (outcome.status === "left_out") gathered.leftOut++;
    else if (outcome.status === "scored") gathered.samples.push(sampleOf(dir, outcome));
    else gathered.failures.push({ file: outcome.file, error: outcome.error, code: outcome.code });
  }
  return gathered;
}

/** The source of `ai/sdxl/portraits/1.png` is `sdxl`. */
function sampleOf(dir: string, { file, ensemble, scored }: Extract<Outcome, { status: "scored" }>): Sample {
  const [label, ...rest] = relative(dir, file).split(sep);
  const models = Object.entries(scored.models).flatMap(([name, { score }]) => (score === null ? [] : [[name, score]]));
  const views = scored.signals.robustness?.views ?? [];
  return {
    isAi: label === "ai",
    source: rest.length > 1 ? rest[0]! : "",
    score: ensemble.score,
    models: Object.fromEntries(models),
    views: Object.fromEntries(views.filter(({ view }) => view !== "original").map(({ view, score }) => [view, score])),
  };
}

type Printing = { limit: number; json: boolean; versions: Detector["versions"]; chosen: ScoreOptions["models"] };

function printFigures({ samples, failures, leftOut }: Gathered, { limit, json, versions, chosen }: Printing): number {
  for (const { file, error } of failures.slice(0, SHOWN_FAILURES)) note(oneLine(`${file}: ${error}`));
  if (failures.length > SHOWN_FAILURES)
    note(`… and ${failures.length - SHOWN_FAILURES} more files could not be scored`);
  const figures = evaluate(samples, limit);
  const without = LABELS.filter((label) => figures.files[label] === 0);
  if (without.length > 0) {
    note(`verk: no evaluation is possible, because no file in ${without.join(" and none in ")} could be scored`);
    return EXIT.failed;
  }
  const modelVersions = Object.fromEntries(chosen.map((model) => [model, versions[model]]));
  if (json) printJson({ object: "detection_evaluation", modelVersions, ...figures, failures, left_out: leftOut });
  else print(evaluationText(figures, { modelVersions, failed: failures.length, leftOut }));
  return EXIT.ok;
}
