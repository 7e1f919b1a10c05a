/** Learns an adaptation from labelled files, and predicts how well it works on files that it has not seen. Pure. */
import { type AdaptedModel, adaptedScore } from "../../../lib/detection/adaptation.ts";
import type { ModelName } from "../../../workers/protocol_detector.ts";
import { adaptedBy, type Fit, fit, type Row, STRATEGIES } from "./fit.ts";

export type ModelView = { logit: number; score: number; features: Float32Array };
export type View = { view: string; models: ReadonlyMap<ModelName, ModelView> };
/** A labelled file: itself, and for an image a re-encoded copy. */
export type Sample = Grouped & { views: readonly View[] };
export type Adapted = Readonly<Partial<Record<ModelName, AdaptedModel>>>;
export type Bases = Readonly<Partial<Record<ModelName, string>>>;
/** Scores of one sample, view by view. */
export type Scores = { isAi: boolean; before: number[]; after: number[] };

const [OUTER, INNER, KEPT] = [5, 3, 4];
const LEAST_LOSS = 1e-6;

export type Split = { learning: Sample[]; kept: Sample[]; bySource: boolean };

/** The last of four parts, never the largest, decides in the end, once. Nothing is learned or chosen with it. */
export function setAside(samples: readonly Sample[]): Split {
  const bySource = canDivideBySource(samples);
  const parts = divide(samples, KEPT, bySource);
  return {
    learning: samples.filter((_, i) => parts[i] !== KEPT - 1),
    kept: samples.filter((_, i) => parts[i] === KEPT - 1),
    bySource,
  };
}

type Learning = { models: readonly ModelName[]; bases: Bases; bySource: boolean };
export type Learned = { adapted: Adapted; fits: Partial<Record<ModelName, Fit>> };

export function learn(samples: readonly Sample[], { models, bases, bySource }: Learning): Learned {
  const fits = Object.fromEntries(models.map((model) => [model, learnModel(samples, model, bySource)]));
  const adapted = models.map((model) => [model, adaptedBy(fits[model]!, bases[model] ?? "")]);
  return { adapted: Object.fromEntries(adapted), fits };
}

/** The strategy is chosen by cross-validation among these samples alone. The first of equal ones changes least. */
function learnModel(samples: readonly Sample[], model: ModelName, bySource: boolean): Fit {
  const canChange = (samples[0]?.views[0]?.models.get(model)?.features.length ?? 0) > 0;
  const strategies = canChange ? STRATEGIES : STRATEGIES.slice(0, 1);
  const parts = strategies.length > 1 ? partsOf(samples, INNER, bySource) : [];
  const losses = strategies.map((strategy) =>
    parts.reduce((sum, { rest, part }) => {
      const adapted = adaptedBy(fit(rowsOf(rest, model), strategy), "");
      const loss = (row: Row) => row.weight * lossOf(adaptedScore(row, adapted), row.isAi);
      return sum + rowsOf(part, model).reduce((total, row) => total + loss(row), 0);
    }, 0),
  );
  const best = losses.reduce((least, loss, i) => (loss < losses[least]! ? i : least), 0);
  return fit(rowsOf(samples, model), strategies[best]!);
}

export const lossOf = (score: number, isAi: boolean) => -Math.log(Math.max(isAi ? score : 1 - score, LEAST_LOSS));

/** Parts to test on, each with all other samples to learn from. A rest without one of the labels teaches nothing. */
function partsOf(samples: readonly Sample[], count: number, bySource: boolean) {
  const of = divide(samples, count, bySource);
  return Array.from({ length: count }, (_, part) => ({
    part: samples.filter((_, i) => of[i] === part),
    rest: samples.filter((_, i) => of[i] !== part),
  })).filter(({ part, rest }) => part.length > 0 && new Set(rest.map(({ isAi }) => isAi)).size === 2);
}

/** One row for each view. Both labels weigh alike, and inside a label every source. */
function rowsOf(samples: readonly Sample[], model: ModelName): Row[] {
  const groups = Map.groupBy(samples, ({ isAi, source }) => `${isAi} ${source}`);
  const sources = (label: boolean) => [...groups.keys()].filter((key) => key.startsWith(`${label} `)).length;
  const [ai, real] = [sources(true), sources(false)];
  return samples.flatMap(({ isAi, source, views }) => {
    const weight = 1 / ((isAi ? ai : real) * groups.get(`${isAi} ${source}`)!.length * views.length);
    return views.flatMap(({ models }) => {
      const seen = models.get(model);
      return seen ? [{ isAi, weight, logit: seen.logit, features: seen.features }] : [];
    });
  });
}

/** Scores of all samples, each by an adaptation that has learned from the others. */
export function crossValidate(samples: readonly Sample[], learning: Learning, current: Adapted): Scores[] {
  return partsOf(samples, OUTER, learning.bySource).flatMap(({ part, rest }) =>
    scoresOf(part, current, learn(rest, learning).adapted),
  );
}

/** `current`: the adaptation in use. A model without one has its shipped score. */
export const scoresOf = (samples: readonly Sample[], current: Adapted, adapted: Adapted): Scores[] =>
  samples.map(({ isAi, views }) => ({
    isAi,
    before: views.map((view) => ensemble(view, current)),
    after: views.map((view) => ensemble(view, adapted)),
  }));

function ensemble({ models }: View, adapted: Adapted): number {
  const scores = [...models].map(([name, seen]) => {
    const change = adapted[name];
    return change ? adaptedScore(seen, change) : seen.score;
  });
  return scores.reduce((sum, score) => sum + score, 0) / scores.length;
}

/** Divides files into parts that share no source, or, if there are few sources, no file. Pure and always the same. */
export type Grouped = { isAi: boolean; source: string; hash: string };

/** With fewer sources of a label than this, files are divided one by one. */
const LEAST_SOURCES = 4;

const canDivideBySource = (files: readonly Grouped[]): boolean =>
  [true, false].every(
    (label) => new Set(files.flatMap(({ isAi, source }) => (isAi === label ? [source] : []))).size >= LEAST_SOURCES,
  );

/**
 * The number of the part of each file. Equal files, and files of a source that has both labels, are never divided.
 * Large groups come first, each into the part with the fewest files of its labels.
 */
export function divide(files: readonly Grouped[], parts: number, bySource: boolean): number[] {
  const keyOf = ({ source, hash }: Grouped) => (bySource ? source : hash);
  const groups = [...Map.groupBy(files, keyOf)].sort(([a, x], [b, y]) => y.length - x.length || (a < b ? -1 : 1));
  const counts = Array.from({ length: parts }, () => ({ ai: 0, real: 0 }));
  const partOf = new Map<string, number>();
  for (const [key, members] of groups) {
    const ai = members.filter(({ isAi }) => isAi).length;
    const real = members.length - ai;
    const load = (part: number) => ai * counts[part]!.ai + real * counts[part]!.real;
    const best = counts.map((_, part) => part).reduce((a, b) => (load(b) < load(a) ? b : a));
    partOf.set(key, best);
    counts[best]!.ai += ai;
    counts[best]!.real += real;
  }
  return files.map((file) => partOf.get(keyOf(file))!);
}
