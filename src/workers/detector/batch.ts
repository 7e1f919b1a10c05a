/**
 * Combines waiting requests into one run when a lane is free, first come first served, up to a limit. Only requests for
 * the same models are combined. If lanes would stay idle, a request is divided into portions instead.
 */
import { AT_ONCE, type Input, type Network, type Results, type RunResult } from "./messages.ts";

/** `alone`: a portion of a divided request. It is not combined with others. */
export type Part = { models: readonly Network[]; input: Input; count: number; alone?: true };

const LONGEST_FIRST = Object.keys(AT_ONCE) as Network[];

/**
 * Divides a request into single runs of its networks, longest first, so that lanes that take one after another end at
 * about the same time. The runs are those of the undivided request. Inputs are views: nothing is copied.
 */
export function portionsOf({ models, input, count }: Part): Part[] {
  const each = input.length / count;
  const ordered = LONGEST_FIRST.filter((name) => models.includes(name));
  return ordered.flatMap((name) =>
    Array.from({ length: Math.ceil(count / AT_ONCE[name]) }, (_, i) => {
      const from = i * AT_ONCE[name];
      const to = Math.min(from + AT_ONCE[name], count);
      return { models: [name], input: input.subarray(from * each, to * each), count: to - from, alone: true as const };
    }),
  );
}

/** The longest run of `a` takes longer than that of `b`. */
export const isLonger = (a: Part, b: Part) => longestOf(a) < longestOf(b);
const longestOf = ({ models }: Part) => LONGEST_FIRST.findIndex((name) => models.includes(name));

/** Joins the results of portions in their order. If one fails, its network fails. */
export function joinResults(models: readonly Network[], portions: readonly Results[]): Results {
  const joined: Results = {};
  for (const name of models) joined[name] = joinRuns(portions.flatMap((results) => results[name] ?? []));
  return joined;
}

function joinRuns(runs: readonly RunResult[]): RunResult {
  const ms = runs.reduce((sum, run) => sum + run.ms, 0);
  const outputs: Outputs[] = [];
  for (const run of runs) {
    if ("error" in run) return { error: run.error, ms };
    outputs.push(run);
  }
  return { ...joinOutputs(outputs), ms };
}

export type Outputs = { logits: Float32Array; features?: Float32Array };

export function joinOutputs(parts: readonly Outputs[]): Outputs {
  const logits = joinFloats(parts.map((part) => part.logits));
  const features = parts.flatMap((part) => part.features ?? []);
  return features.length === 0 ? { logits } : { logits, features: joinFloats(features) };
}

function joinFloats(parts: readonly Float32Array[]): Float32Array {
  const whole = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Takes the next batch out of `queue`. A request above the limit runs alone. */
export function takeBatch<T extends Part>(queue: T[], limit: number): T[] {
  const first = queue.shift();
  if (!first) return [];
  const batch = [first];
  let room = limit - first.count;
  for (let i = 0; i < queue.length && room > 0; ) {
    const next = queue[i]!;
    if (next.count <= room && alike(first, next)) {
      batch.push(...queue.splice(i, 1));
      room -= next.count;
    } else i++;
  }
  return batch;
}

const alike = (a: Part, b: Part) =>
  !(a.alone || b.alone) && a.models.length === b.models.length && a.models.every((model, i) => model === b.models[i]);

/** Joins inputs of one kind: they are for the same models. A portion is copied: others still need its buffer. */
export function join(parts: readonly Part[]): Input {
  const [first] = parts;
  if (!first) throw new Error("The batch is empty");
  if (parts.length === 1) return first.alone ? first.input.slice() : first.input;
  const length = parts.reduce((sum, { input }) => sum + input.length, 0);
  const whole = first.input instanceof Uint8Array ? new Uint8Array(length) : new Float32Array(length);
  let at = 0;
  for (const { input } of parts) {
    whole.set(input, at);
    at += input.length;
  }
  return whole;
}

/** Returns each request's range of the batch's results. */
export function stretches(parts: readonly Part[]): [from: number, to: number][] {
  let at = 0;
  return parts.map(({ count }) => {
    const from = at;
    at += count;
    return [from, at];
  });
}
