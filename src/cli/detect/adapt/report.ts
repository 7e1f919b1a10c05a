import { columns } from "../../output.ts";
import type { Comparison, Figures } from "./decide.ts";

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
export function comparisonText(parts: readonly { title: string; comparisons: readonly Comparison[] }[]): string {
  const blocks = parts.flatMap(({ title, comparisons }) =>
    comparisons.map(({ view, files, before, after }) => {
      const rows = ROWS.map(([name, key]) => [`  ${name}`, figure(before[key]), figure(after[key])]);
      return columns([[`${title}, ${files} files, ${view}`, "BEFORE", "AFTER"], ...rows]).join("\n");
    }),
  );
  return blocks.join("\n\n");
}
