/** Detections in words. Pure. */

import { TIER_STARTS } from "../../../lib/detection/tiers.ts";
import { spreadsheetCell } from "../../../lib/text/csv.ts";
import type { Detection } from "../../../resources/detection/schema.ts";
import type { Content } from "../../kit/chart/series.ts";
import type { Tone } from "../../kit/pill.tsx";

const TIERS: Readonly<Record<Detection["prediction"], readonly [words: string, tone: Tone]>> = {
  ai: ["Generated", "bad"],
  likely_ai: ["Likely generated", "warn"],
  uncertain: ["Uncertain", "idle"],
  likely_real: ["Likely real", "good"],
  real: ["Real", "good"],
};

export const tierOf = (prediction: Detection["prediction"]) => {
  const [text, tone] = TIERS[prediction];
  return { text, tone };
};

/** `score` null: it is not there yet. */
export type Score = { name: string; score: number | null };

/** Scores beside each other, between the limits of the tiers. The last one can have a colour of its own. */
export function chartOf(label: string, xLabel: string, scores: readonly Score[], last?: string): Content {
  const dots = (name: string, token: string, isShown: (i: number) => boolean) => ({
    label: name,
    token,
    dots: true,
    values: scores.map(({ score }, i) => (isShown(i) ? score : null)),
  });
  const end = last === undefined ? scores.length : scores.length - 1;
  return {
    label,
    kind: "name",
    x: scores.map((_, i) => i),
    names: scores.map(({ name }) => name),
    xLabel,
    yLabel: "score",
    yRange: [0, 1],
    format: scoreOf,
    levels: TIER_STARTS.filter(([start]) => start > 0).map(([start, tier]) => ({ y: start, label: tierOf(tier).text })),
    series: [
      dots("Score of each", "--c1", (i) => i < end),
      ...(last === undefined ? [] : [dots(last, "--c2", (i) => i >= end)]),
    ],
  };
}

/** Score as people read it: 0.873 → "0.87" */
export const scoreOf = (score: number): string => score.toFixed(2);

/** +0.12, −0.03, ±0.00 */
export function changeOf(score: number, before: number): string {
  const change = Math.round((score - before) * 100) / 100;
  if (change === 0) return "±0.00";
  return `${change > 0 ? "+" : "−"}${Math.abs(change).toFixed(2)}`;
}

/** One line for each file, for spreadsheets. */
export const csvOf = (
  rows: readonly { name: string; detection?: Detection | undefined; error?: string | undefined }[],
) =>
  [
    "file,score,prediction,sha256,error",
    ...rows.map(({ name, detection, error }) =>
      [
        name,
        detection ? String(detection.ensemble_score) : "",
        detection?.prediction ?? "",
        detection?.imageHash ?? "",
        error ?? "",
      ]
        .map(spreadsheetCell)
        .join(","),
    ),
    "",
  ].join("\n");
