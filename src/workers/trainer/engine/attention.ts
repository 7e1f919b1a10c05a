/**
 * Attention with any number of query heads per key head. The heads of one key head are concatenated along the queries,
 * so that gradients of keys and values add up by themselves. ggml has no backward pass of flash attention. Queries are
 * split into blocks, so that memory is T × block instead of T × T.
 */

import { must } from "../../../native/ffi.ts";
import { shapeOf, stridesOf } from "../../../native/ggml/symbols.ts";
import { capSlope, outer } from "./ops.ts";
import type { Tape, Tensor } from "./tape.ts";

export type Masks = {
  /** Queries in a block; the last block may be shorter. */
  readonly block: number;
  /** For each block [keys, queries, 1, rows]: 0 or -∞, added to the scores. */
  readonly of: readonly Tensor[];
};

type Step = {
  masks: Masks;
  scale: number;
  /** Limit of the scaled scores; 0: none. */
  cap: number;
  /** For each head the score of nothing, which takes a share too. Frozen. Null: no such score. */
  sinks: Tensor | null;
};

/** q [head, heads, T, rows]; k, v [head, key heads, T, rows] → [head · heads, T · rows]. */
export function attention(tape: Tape, q: Tensor, k: Tensor, v: Tensor, step: Step): Tensor {
  const { masks } = step;
  const { ggml, context: c } = tape;
  const [head, heads, T, batch] = shapeOf(q);
  const keyHeads = shapeOf(k)[1];
  const swap = (x: Tensor) => must(ggml.ggml_cont(c, ggml.ggml_permute(c, x, 0, 2, 1, 3)), "permute");
  const shaped = (x: Tensor | bigint | null, ...to: [number, number, number, number]) =>
    must(ggml.ggml_reshape_4d(c, must(x, "attention"), ...to), "reshape");
  const group = heads / keyHeads;
  const queries = swap(q); // [head, T, heads, rows]
  const keys = swap(k);
  const values = must(ggml.ggml_cont(c, ggml.ggml_permute(c, v, 1, 2, 0, 3)), "permute"); // [T, head, key heads, rows]

  const blocks = masks.of.map((mask, i) => {
    const from = i * masks.block;
    const count = Math.min(masks.block, T - from);
    const some = shaped(part(tape, queries, from, count), head, count * group, keyHeads, batch);
    const scores = shaped(ggml.ggml_mul_mat(c, keys, some), T, count, heads, batch);
    const { shares, back } = softMax(tape, scores, mask, step);
    const mixed = ggml.ggml_mul_mat(c, values, shaped(shares, T, count * group, keyHeads, batch));
    return { from, count, some, shares, back, out: shaped(mixed, head, count, heads, batch) };
  });
  const joined = blocks.map(({ out }) => out).reduce((a, b) => must(ggml.ggml_concat(c, a, b, 1), "concat"));
  const out = shaped(swap(joined), head * heads, T * batch, 1, 1);

  return tape.record(out, [q, k, v], (gradient) => {
    const all = swap(shaped(gradient, head, heads, T, batch)); // [head, T, heads, rows]
    const plainValues = swap(v);
    const turnedKeys = must(ggml.ggml_cont(c, ggml.ggml_transpose(c, keys)), "transpose");
    const ofQueries: Tensor[] = [];
    for (const { from, count, some, shares, back } of blocks) {
      const blockGradient = shaped(part(tape, all, from, count), head, count * group, keyHeads, batch);
      const ofShares = shaped(ggml.ggml_mul_mat(c, plainValues, blockGradient), T, count, heads, batch);
      const ofScores = tape.emit(shaped(back(ofShares), T, count * group, keyHeads, batch));
      ofQueries.push(shaped(ggml.ggml_mul_mat(c, turnedKeys, ofScores), head, count, heads, batch));
      tape.give(k, swap(outer(tape, some, ofScores)));
      // Must come after the softmax's own backward. Without a later reader of the shares, ggml would put its result in
      // their memory and compute it from itself.
      if (tape.needs(v))
        tape.give(v, swap(outer(tape, blockGradient, shaped(shares, T, count * group, keyHeads, batch))));
      else tape.emit(ggml.ggml_sum(c, shares)); // the later reader, where nothing before the values is trained
    }
    tape.give(q, swap(ofQueries.reduce((a, b) => must(ggml.ggml_concat(c, a, b, 1), "concat"))));
  });
}

/** `back` turns the gradient of the shares into that of the scores. */
function softMax(tape: Tape, scores: Tensor, mask: Tensor, { scale, cap, sinks }: Step) {
  const { ggml, context } = tape;
  if (cap === 0) {
    const shares = must(ggml.ggml_soft_max_ext(context, scores, mask, scale, 0), "softmax");
    if (sinks) ggml.ggml_soft_max_add_sinks(shares, sinks);
    const back = (gradient: Tensor) =>
      must(ggml.ggml_soft_max_ext_back(context, gradient, shares, scale, 0), "softmax");
    return { shares, back };
  }
  const curve = must(ggml.ggml_tanh(context, ggml.ggml_scale(context, scores, scale / cap)), "tanh");
  const shares = must(ggml.ggml_soft_max_ext(context, ggml.ggml_scale(context, curve, cap), mask, 1, 0), "softmax");
  const back = (gradient: Tensor) => {
    const ofCapped = ggml.ggml_soft_max_ext_back(context, gradient, shares, 1, 0);
    return must(ggml.ggml_mul(context, ofCapped, capSlope(tape, curve, scale)), "product");
  };
  return { shares, back };
}

/** A view of some entries of the second dimension. */
function part(tape: Tape, x: Tensor, from: number, count: number): Tensor {
  const { ggml, context } = tape;
  const [a, T, h, b] = shapeOf(x);
  if (count === T) return x;
  const [, n1, n2, n3] = stridesOf(x);
  return must(ggml.ggml_cont(context, ggml.ggml_view_4d(context, x, a, count, h, b, n1, n2, n3, from * n1)), "view");
}
