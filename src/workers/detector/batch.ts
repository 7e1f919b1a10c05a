/**
 * Combines waiting requests into one run when a lane is free, first come first served, up to a limit. Only requests for
 * the same models are combined. Requests of clients that left are skipped.
 */
import type { Input, Network } from "./messages.ts";

export type Part = { models: readonly Network[]; input: Input; count: number };

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
  a.models.length === b.models.length && a.models.every((model, i) => model === b.models[i]);

/** Joins inputs of one kind: they are for the same models. */
export function join(parts: readonly Part[]): Input {
  const [first] = parts;
  if (!first) throw new Error("The batch is empty");
  if (parts.length === 1) return first.input;
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
