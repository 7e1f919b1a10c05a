/** Formats one line per file. The path is last, because its width is unknown. */
import { signatureWords } from "../../lib/detection/signature_words.ts";
import { EVEN, PREDICTIONS } from "../../lib/detection/tiers.ts";
import { isoTime } from "../../lib/time.ts";
import { present } from "../../resources/detection/schema.ts";
import type { ModelName, Signals } from "../../workers/protocol_detector.ts";
import { paint, plain } from "../output.ts";
import { type Outcome, takersOf } from "./detector.ts";

type Scored = Extract<Outcome, { status: "scored" }>;
type ReportedOutcome = Exclude<Outcome, { status: "left_out" }>;
export type Columns = { models: readonly ModelName[]; robustness: boolean };

const RANGE = "OVER RE-ENCODES";
const WIDTHS = { score: 5, prediction: 11, range: "0.000–0.000 flips".length };
const COLORS = { ai: "red", likely_ai: "red", uncertain: "yellow", likely_real: "green", real: "green" } as const;

const figure = (score: number | null | undefined) => (score === null || score === undefined ? "-" : score.toFixed(3));
/** Replaces line breaks and control characters, which a file name may contain. */
export const oneLine = (text: string) => plain(text).replaceAll(/[\t\n]/g, "\ufffd");

/** Models with a column of their own: none if only one model is used. Speech has only one model. */
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

export function lineOf(outcome: ReportedOutcome, columns: Columns): string {
  const scoreOf = (model: ModelName) => (outcome.status === "scored" ? outcome.scored.models[model]?.score : null);
  const cells = shownModels(columns).map((model) => figure(scoreOf(model)).padEnd(model.length));
  const range = columns.robustness ? [rangeOf(outcome).padEnd(WIDTHS.range)] : [];
  const file = oneLine(outcome.file);
  if (outcome.status === "failed") {
    const error = paint("red", "error".padEnd(WIDTHS.prediction));
    return ["-".padEnd(WIDTHS.score), error, ...cells, ...range, `${file}: ${oneLine(outcome.error)}`].join("  ");
  }
  const { score, prediction } = outcome.ensemble;
  const { reason } = outcome.ensemble;
  const notes = [...(reason === null ? [] : [`[${reason}]`]), ...notesOf(outcome.scored.signals)];
  const said = paint(COLORS[prediction], prediction.padEnd(WIDTHS.prediction));
  return [figure(score), said, ...cells, ...range, file, ...notes.map((note) => paint("dim", note))].join("  ");
}

/** Formats `0.121–0.644 flips`; `flips` means that a re-encode changes the prediction. */
function rangeOf(outcome: ReportedOutcome): string {
  const range = outcome.status === "scored" ? outcome.scored.signals.robustness : null;
  return range ? `${figure(range.lowest)}–${figure(range.highest)}${range.flips ? " flips" : ""}` : "-";
}

/** Claims of the file, which can be forged, and its watermark. */
function notesOf({ c2pa, metadata, watermark }: Signals): string[] {
  const claims = c2pa?.present ? [c2pa.claim_generator, c2pa.digital_source_type?.split("/").at(-1)] : [];
  const doubt = c2pa?.hash_valid === false ? ", but the content was changed" : "";
  const signed = c2pa?.signature ? `, ${oneLine(signatureWords(c2pa.signature))}` : "";
  const named = claims.filter((each) => each !== null && each !== undefined).join(", ") || "present";
  return [
    ...(c2pa?.present ? [`[C2PA: ${oneLine(named)}${signed}${doubt}]`] : []),
    ...(metadata.generator === null ? [] : [`[metadata: ${oneLine(metadata.generator)}]`]),
    ...(watermark ? [`[watermark: ${watermark.generator}]`] : []),
  ];
}

/** The shape of the API, without the fields that only a server has. */
export function jsonOf(outcome: ReportedOutcome, threshold: number, nowMs: number) {
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
  prior: EVEN,
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

/** Formats `12 scored: 3 ai, 9 real; 1 failed; 4 of other types skipped`. */
export function summaryOf({ predictions, failed, leftOut }: Counts): string {
  const each = PREDICTIONS.flatMap((tier) => (predictions.has(tier) ? [`${predictions.get(tier)} ${tier}`] : []));
  const scored = [...predictions.values()].reduce((sum, n) => sum + n, 0);
  return [
    scored > 0 ? `${scored} scored: ${each.join(", ")}` : "no file scored",
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(leftOut > 0 ? [`${leftOut} of other types skipped`] : []),
  ].join("; ");
}
