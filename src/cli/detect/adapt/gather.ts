/** Reads the labelled folders and collects what the models see in each file. Files are decoded in the detector's process. */
import { statSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { UsageError } from "../../../lib/errors.ts";
import { Evidence, type ModelName } from "../../../workers/protocol_detector.ts";
import { note } from "../../output.ts";
import type { Detector, Outcome, ScoreOptions } from "../detector.ts";
import { findFiles, type InputFile } from "../files.ts";
import { oneLine } from "../report.ts";
import { outcomes } from "../run.ts";
import type { Origin } from "./decide.ts";
import type { Bases, Sample, View } from "./learn.ts";

/** `ai` is the name that `verk detect eval` uses. */
const GENERATED = ["generated", "ai"] as const;
const LEAST_FILES = 20;
const SHOWN_FAILURES = 5;

export async function labelledFiles(dir: string): Promise<InputFile[]> {
  const isFolder = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  const generated = GENERATED.map((name) => join(dir, name)).find(isFolder);
  const real = join(dir, "real");
  if (generated === undefined || !isFolder(real))
    throw new UsageError(
      `detect adapt: expected the folders ${join(dir, "generated")} and ${real}. Put generated files into the first and real files into the second.`,
    );
  return await findFiles([generated, real]);
}

export type Labelled = { samples: Sample[]; origins: Origin[]; bases: Bases; failed: number; leftOut: number };
type ScoredFile = Extract<Outcome, { status: "scored" }>;

export async function gather(
  detector: Detector,
  dir: string,
  files: readonly InputFile[],
  options: ScoreOptions,
): Promise<Labelled> {
  const labelled: Labelled = { samples: [], origins: [], bases: {}, failed: 0, leftOut: 0 };
  for await (const outcome of outcomes(detector, files, options)) {
    if (outcome.status === "left_out") labelled.leftOut++;
    else if (outcome.status === "failed") {
      if (++labelled.failed <= SHOWN_FAILURES) note(oneLine(`${outcome.file}: ${outcome.error}`));
    } else addSample(labelled, dir, outcome);
  }
  requireEnough(labelled.samples);
  requireOneLabel(labelled.samples);
  return labelled;
}

function addSample(labelled: Labelled, dir: string, { file, scored, hash }: ScoredFile) {
  const { bases, views } = Evidence.parse(scored.evidence);
  const [label, ...rest] = relative(dir, file).split(sep);
  const isAi = label !== "real";
  labelled.bases = bases;
  labelled.samples.push({ isAi, source: rest.length > 1 ? rest[0]! : "", hash, views: views.map(viewOf) });
  const { media } = scored;
  labelled.origins.push({
    isAi,
    format: media.format,
    size: media.kind === "image" ? media.width * media.height : media.seconds,
  });
}

const viewOf = ({ view, models }: Evidence["views"][number]): View => ({
  view,
  models: new Map(
    Object.entries(models).map(([name, seen]) => [
      name as ModelName,
      { ...seen, features: Float32Array.from(seen.features) },
    ]),
  ),
});

function requireEnough(samples: readonly Sample[]) {
  const ai = samples.filter(({ isAi }) => isAi).length;
  const real = samples.length - ai;
  if (Math.min(ai, real) < LEAST_FILES)
    throw new UsageError(
      `detect adapt: ${ai} generated and ${real} real files could be read, but at least ${LEAST_FILES} of each are needed. Add files to the folder with fewer.`,
    );
}

function requireOneLabel(samples: readonly Sample[]) {
  const labels = new Map<string, boolean>();
  for (const { hash, isAi } of samples) {
    if ((labels.get(hash) ?? isAi) !== isAi)
      throw new UsageError(
        `detect adapt: a file with the SHA-256 ${hash} is in both folders. Remove it from the wrong one.`,
      );
    labels.set(hash, isAi);
  }
}
