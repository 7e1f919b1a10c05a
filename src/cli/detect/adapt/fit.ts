/**
 * Fits one model to labelled files: a scale and a shift of its logit, and, if the last layer can change, small changes
 * of its weights. The penalty draws the weights back to the shipped ones. Pure.
 */
import { type AdaptedModel, packFloats } from "../../../lib/detection/adaptation.ts";
import { sigmoid } from "../../../lib/detection/curve.ts";
import { minimise } from "./minimise.ts";

export type Row = { isAi: boolean; weight: number; logit: number; features: Float32Array };
/** `recalibrate` changes no weight; a number is the penalty of the changes. */
export type Strategy = "recalibrate" | number;
/** The adapted logit is scale · (logit + weight · features + bias). */
export type Fit = { scale: number; weight: Float32Array; bias: number; strategy: Strategy };

/** Chosen by cross-validation. Features are standardised, so one list fits every model. */
export const STRATEGIES: readonly Strategy[] = ["recalibrate", 1, 0.1, 0.01];
/** Draws the scale to 1: otherwise separable files would make it infinite. */
const SCALE_PENALTY = 0.01;
/** No score is certain, as in the shipped calibrations. */
const [LOWEST, HIGHEST] = [0.02, 0.98];

export function fit(rows: readonly Row[], strategy: Strategy): Fit {
  const width = strategy === "recalibrate" ? 0 : (rows[0]?.features.length ?? 0);
  const { mean, deviation } = columnsOf(rows, width);
  const inputs = rows.map(({ features }) =>
    Float64Array.from({ length: width }, (_, i) => (features[i]! - mean[i]!) / deviation[i]!),
  );
  const targets = targetsOf(rows);
  const total = rows.reduce((sum, { weight }) => sum + weight, 0);
  const penalty = strategy === "recalibrate" ? 0 : strategy;
  const solved = minimise(new Float64Array(2 + width), (x) => {
    const gradient = new Float64Array(x.length);
    const scale = Math.exp(x[0]!);
    let value = (SCALE_PENALTY / 2) * x[0]! ** 2;
    gradient[0] = SCALE_PENALTY * x[0]!;
    for (let i = 0; i < width; i++) {
      value += (penalty / 2) * x[i + 2]! ** 2;
      gradient[i + 2] = penalty * x[i + 2]!;
    }
    for (let r = 0; r < rows.length; r++) {
      const { logit, weight } = rows[r]!;
      const input = inputs[r]!;
      let z = scale * logit + x[1]!;
      for (let i = 0; i < width; i++) z += x[i + 2]! * input[i]!;
      const share = weight / total;
      value += share * (softplus(z) - targets[r]! * z);
      const slope = share * (sigmoid(z) - targets[r]!);
      gradient[0]! += slope * scale * logit;
      gradient[1]! += slope;
      for (let i = 0; i < width; i++) gradient[i + 2]! += slope * input[i]!;
    }
    return { value, gradient };
  });
  const scale = Math.exp(solved[0]!);
  const weight = Float32Array.from({ length: width }, (_, i) => solved[i + 2]! / deviation[i]! / scale);
  const moved = weight.reduce((sum, value, i) => sum + value * mean[i]!, 0);
  return { scale, weight, bias: solved[1]! / scale - moved, strategy };
}

function columnsOf(rows: readonly Row[], width: number) {
  const mean = new Float64Array(width);
  const deviation = new Float64Array(width);
  for (const { features } of rows) for (let i = 0; i < width; i++) mean[i]! += features[i]! / rows.length;
  for (const { features } of rows)
    for (let i = 0; i < width; i++) deviation[i]! += (features[i]! - mean[i]!) ** 2 / rows.length;
  return { mean, deviation: deviation.map((variance) => Math.sqrt(variance) + 1e-6) };
}

/** Platt's targets: a little less than certain, the more files the nearer. */
function targetsOf(rows: readonly Row[]): number[] {
  const ai = rows.filter(({ isAi }) => isAi).length;
  return rows.map(({ isAi }) => (isAi ? (ai + 1) / (ai + 2) : 1 / (rows.length - ai + 2)));
}

const softplus = (z: number) => Math.max(z, 0) + Math.log1p(Math.exp(-Math.abs(z)));

const CURVE_POINTS = 64;

/** The fit in the form that the detector reads. Without a new last layer, the shift is part of the curve. */
export function adaptedBy({ scale, weight, bias }: Fit, base: string): AdaptedModel {
  const bounded = (p: number) => LOWEST + (HIGHEST - LOWEST) * p;
  if (weight.length > 0)
    return {
      base,
      head: { weight: packFloats(weight), bias },
      temperature: 1 / scale,
      isotonic: [
        [0, LOWEST],
        [1, HIGHEST],
      ],
    };
  const shift = Math.exp(-bias * scale);
  const isotonic = Array.from({ length: CURVE_POINTS + 1 }, (_, i): [number, number] => {
    const p = i / CURVE_POINTS;
    return [p, bounded(p === 0 ? 0 : p / (p + (1 - p) * shift))];
  });
  return { base, head: null, temperature: 1 / scale, isotonic };
}
