/** A line for each file as it comes, the path last: it has no width that is known before. */
import { PREDICTIONS } from "../../lib/detection/tiers.ts";
import { isoTime } from "../../lib/time.ts";
import { present } from "../../resources/detection/schema.ts";
import type { ModelName, Signals } from "../../workers/protocol_detector.ts";
import { paint, plain } from "../output.ts";
import { type Outcome, takersOf } from "./detector.ts";

type Scored = Extract<Outcome, { status: "scored" }>;
type Told = Exclude<Outcome, { status: "left_out" }>;
export type Columns = { models: readonly ModelName[]; robustness: boolean };

const RANGE = "OVER RE-ENCODES";
const WIDTHS = { score: 5, prediction: 11, range: "0.000–0.000 flips".length };
const COLORS = { ai: "red", likely_ai: "red", uncertain: "yellow", likely_real: "green", real: "green" } as const;

const figure = (score: number | null | undefined) => (score === null || score === undefined ? "-" : score.toFixed(3));
/** A name may hold anything; a line of the table is one line. */
export const oneLine = (text: string) => plain(text).replaceAll(/[\t\n]/g, "\ufffd");

/** One model's score is the score itself, and speech has one. */
function shownModels({ models }: Columns): readonly ModelName[] {
  const several = models.filter((model) => takersOf("image").includes(model));
  return several.length > 1 ? several : [];
}

export const headerOf = (columns: Columns): string =>
  [
    "SCORE",
    "PREDICTION".padEnd(WIDTHS.prediction),
    ...shownModels(columns),
    ...(columns.robustness ? [RANGE.padEnd(WIDTHS.range)] : []),
    "FILE",
  ].join("  ");

export function lineOf(outcome: Told, columns: Columns): string {
  const scoreOf = (model: ModelName) => (outcome.status === "scored" ? outcome.scored.models[model]?.score : null);
  const cells = shownModels(columns).map((model) => figure(scoreOf(model)).padEnd(model.length));
  const range = columns.robustness ? [rangeOf(outcome).padEnd(WIDTHS.range)] : [];
  const file = oneLine(outcome.file);
  if (outcome.status === "failed") {
    const error = paint("red", "error".padEnd(WIDTHS.prediction));
    return ["-".padEnd(WIDTHS.score), error, ...cells, ...range, `${file}: ${oneLine(outcome.error)}`].join("  ");
  }
  const { score, prediction } = outcome.ensemble;
  const notes = notesOf(outcome.scored.signals);
  const said = paint(COLORS[prediction], prediction.padEnd(WIDTHS.prediction));
  return [figure(score), said, ...cells, ...range, file, ...notes.map((note) => paint("dim", note))].join("  ");
}

/** `0.121–0.644 flips`: the answer would be another after a re-encode. */
function rangeOf(outcome: Told): string {
  const range = outcome.status === "scored" ? outcome.scored.signals.robustness : null;
  return range ? `${figure(range.lowest)}–${figure(range.highest)}${range.flips ? " flips" : ""}` : "-";
}

/** What the file says of itself, which anybody can write and which moves no score. */
function notesOf({ c2pa, metadata }: Signals): string[] {
  const claims = c2pa?.present ? [c2pa.claim_generator, c2pa.digital_source_type?.split("/").at(-1)] : [];
  const doubt = c2pa?.hash_valid === false ? ", but the content was changed" : "";
  const named = claims.filter((each) => each !== null && each !== undefined).join(", ") || "present";
  return [
    ...(c2pa?.present ? [`[C2PA: ${oneLine(named)}${doubt}]`] : []),
    ...(metadata.generator === null ? [] : [`[metadata: ${oneLine(metadata.generator)}]`]),
  ];
}

/** The API's own shape, without what only a server has. */
export function jsonOf(outcome: Told, threshold: number, nowMs: number) {
  const { file } = outcome;
  if (outcome.status === "failed") return { file, error: outcome.error, code: outcome.code };
  const { id: _id, cached: _cached, feedback: _feedback, ...detection } = present(rowOf(outcome, threshold, nowMs));
  return { file, ...detection, timestamp: isoTime(nowMs) };
}

const rowOf = ({ scored, hash, sizeBytes, ms }: Scored, threshold: number, nowMs: number) => ({
  id: "",
  workspaceId: "",
  imageHash: hash,
  cacheKey: null,
  threshold,
  sizeBytes,
  scored,
  detectionMs: ms,
  processingMs: ms,
  feedback: null,
  createdAt: nowMs,
});

export type Counts = { predictions: Map<string, number>; above: number; failed: number; leftOut: number };

export const newCounts = (): Counts => ({ predictions: new Map(), above: 0, failed: 0, leftOut: 0 });

export function count(counts: Counts, outcome: Outcome, threshold: number) {
  if (outcome.status === "left_out") counts.leftOut++;
  else if (outcome.status === "failed") counts.failed++;
  else {
    const { prediction, score } = outcome.ensemble;
    counts.predictions.set(prediction, (counts.predictions.get(prediction) ?? 0) + 1);
    if (score >= threshold) counts.above++;
  }
}

/** `12 scored: 3 ai, 9 real; 1 failed; 4 of other kinds left out` */
export function summaryOf({ predictions, failed, leftOut }: Counts): string {
  const each = PREDICTIONS.flatMap((tier) => (predictions.has(tier) ? [`${predictions.get(tier)} ${tier}`] : []));
  const scored = [...predictions.values()].reduce((sum, n) => sum + n, 0);
  return [
    scored > 0 ? `${scored} scored: ${each.join(", ")}` : "nothing scored",
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(leftOut > 0 ? [`${leftOut} of other kinds left out`] : []),
  ].join("; ");
}
