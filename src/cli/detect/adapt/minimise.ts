/** Minimises a smooth convex function by L-BFGS with backtracking. */
export type Point = { value: number; gradient: Float64Array };

const MEMORY = 8;
const STEPS = 60;
const ENOUGH = 1e-5; // length of the gradient
const DECREASE = 1e-4;
const HALVINGS = 30;

export function minimise(start: Float64Array, at: (x: Float64Array) => Point): Float64Array {
  let x = start;
  let here = at(x);
  const pairs: { s: Float64Array; y: Float64Array; rho: number }[] = [];
  for (let step = 0; step < STEPS && norm(here.gradient) > ENOUGH; step++) {
    const direction = descent(here.gradient, pairs);
    const next = search(x, here, direction, at);
    if (!next) return x;
    const s = combine(next.x, -1, x);
    const y = combine(next.gradient, -1, here.gradient);
    if (dot(s, y) > 1e-12) pairs.push({ s, y, rho: 1 / dot(s, y) });
    if (pairs.length > MEMORY) pairs.shift();
    [x, here] = [next.x, next];
  }
  return x;
}

/** The first of halved steps that lowers the value enough. Undefined: none does. */
function search(x: Float64Array, here: Point, direction: Float64Array, at: (x: Float64Array) => Point) {
  const slope = dot(here.gradient, direction);
  for (let i = 0, length = 1; i < HALVINGS; i++, length /= 2) {
    const there = combine(x, length, direction);
    const next = at(there);
    if (next.value <= here.value + DECREASE * length * slope) return { x: there, ...next };
  }
  return undefined;
}

function descent(gradient: Float64Array, pairs: readonly { s: Float64Array; y: Float64Array; rho: number }[]) {
  let q = Float64Array.from(gradient);
  const factors: number[] = [];
  for (const { s, y, rho } of pairs.toReversed()) {
    const factor = rho * dot(s, q);
    factors.unshift(factor);
    q = combine(q, -factor, y);
  }
  const last = pairs.at(-1);
  const scale = last ? dot(last.s, last.y) / dot(last.y, last.y) : 1 / Math.max(1, norm(gradient));
  q = q.map((value) => value * scale);
  for (const [i, { s, y, rho }] of pairs.entries()) q = combine(q, factors[i]! - rho * dot(y, q), s);
  return q.map((value) => -value);
}

/** a + factor · b */
const combine = (a: Float64Array, factor: number, b: Float64Array) => a.map((value, i) => value + factor * b[i]!);

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

const norm = (a: Float64Array) => Math.sqrt(dot(a, a));
