import { PREDICTIONS } from "../../lib/detection/tiers.ts";
import { columns } from "../output.ts";
import type { Evaluation } from "./evaluation.ts";
import { oneLine } from "./report.ts";

type About = { modelVersions: Record<string, string | undefined>; failed: number; leftOut: number };

const figure = (value: number | null) => (value === null ? "-" : value.toFixed(3));
/** With fewer files per label, the figures are mostly chance. */
const FEW_FILES = 30;

export function evaluationText(figures: Evaluation, about: About): string {
  const parts = [
    opening(figures, about),
    whole(figures),
    table(["RANKING", "AUROC", "FILES"], rankings(figures)),
    table(["AFTER", "AUROC", "OF CLEAN", "FILES"], robustness(figures)),
    table(["SCORES", "FILES", "MEAN SCORE", "GENERATED"], calibration(figures)),
    table(["LABEL", "SOURCE", "FILES", "AUROC", "MEAN SCORE", "ACCURACY", ...PREDICTIONS], sources(figures)),
    "The AUROC of a source compares its files with all files of the other label. Its accuracy is the share of its files on the right side of the threshold.",
  ];
  return parts.filter((part) => part !== "").join("\n\n");
}

const table = (header: readonly string[], rows: readonly (readonly string[])[]) =>
  rows.length === 0 ? "" : columns([header, ...rows]).join("\n");

function opening({ files }: Evaluation, { modelVersions, failed, leftOut }: About): string {
  const models = Object.entries(modelVersions).map(([name, version]) => `${name} ${version ?? "?"}`);
  const aside = [
    ...(failed > 0 ? [`${failed} could not be scored`] : []),
    ...(leftOut > 0 ? [`${leftOut} of other types skipped`] : []),
  ];
  const few = Math.min(files.ai, files.real) < FEW_FILES ? ["too few files: the figures are rough"] : [];
  return [`${files.ai} ai, ${files.real} real by ${models.join(", ")}`, ...aside, ...few].join("; ");
}

function whole(figures: Evaluation): string {
  const { ai_tier: tier, worst_source: worst } = figures;
  const even = (value: number | null) => `${figure(value)} with equally many files per label`;
  const named = worst ? [worst.label, worst.source].filter((each) => each !== "").join("/") : "";
  const rows = [
    ["AUROC", figure(figures.auroc)],
    ["  mean over sources", figure(figures.mean_over_sources)],
    ["  worst source", `${figure(worst?.auroc ?? null)} ${oneLine(named)}`.trimEnd()],
    ["balanced accuracy", `${figure(figures.balanced_accuracy)} at ${figures.threshold}`],
    ["precision of the ai tier", `${figure(tier.precision)}, ${even(tier.precision_evened)}`],
    ["  recall", `${figure(tier.recall)}, ${tier.files} files`],
    ["calibration error (ECE)", `${figure(figures.ece)}, ${even(figures.ece_evened)}`],
  ];
  return columns(rows).join("\n");
}

const rankings = ({ auroc, files, models }: Evaluation) =>
  Object.keys(models).length < 2
    ? []
    : [
        ["all models", figure(auroc), String(files.ai + files.real)],
        ...Object.entries(models).map(([name, each]) => [name, figure(each.auroc), String(each.files)]),
      ];

const robustness = ({ robustness }: Evaluation) =>
  Object.entries(robustness).map(([view, each]) => [
    view,
    figure(each.auroc),
    figure(each.of_clean),
    String(each.files),
  ]);

const calibration = ({ calibration }: Evaluation) =>
  calibration.map((bin) => [
    `${bin.from.toFixed(1)}–${bin.to.toFixed(1)}`,
    String(bin.files),
    figure(bin.mean_score),
    figure(bin.share_ai),
  ]);

const sources = ({ sources }: Evaluation) =>
  sources.map((each) => [
    each.label,
    oneLine(each.source) || "-",
    String(each.files),
    figure(each.auroc),
    figure(each.mean_score),
    figure(each.accuracy),
    ...PREDICTIONS.map((tier) => String(each.tiers[tier])),
  ]);
