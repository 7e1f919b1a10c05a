/** The operations of a transformer, each with its gradient. Shapes are in ggml's order: the row length comes first. */

import { must } from "../../../native/ffi.ts";
import { isQuantized, TYPE } from "../../../native/ggml/ggml.ts";
import { shapeOf, stridesOf, typeOf } from "../../../native/ggml/symbols.ts";
import type { Yarn } from "./architecture.ts";
import type { Tape, Tensor } from "./tape.ts";

export function add(tape: Tape, a: Tensor, b: Tensor): Tensor {
  return tape.record(tape.ggml.ggml_add(tape.context, a, b), [a, b], (gradient) => {
    tape.give(a, gradient);
    tape.give(b, gradient);
  });
}

export function scale(tape: Tape, x: Tensor, by: number): Tensor {
  const { ggml, context } = tape;
  return tape.record(ggml.ggml_scale(context, x, by), [x], (gradient) =>
    tape.give(x, ggml.ggml_scale(context, gradient, by)),
  );
}

/** x ⊙ c, where c does not depend on the weights. */
export function mulConstant(tape: Tape, x: Tensor, c: Tensor): Tensor {
  const { ggml, context } = tape;
  return tape.record(ggml.ggml_mul(context, x, c), [x], (gradient) =>
    tape.give(x, ggml.ggml_mul(context, gradient, c)),
  );
}

/** out · tanh(x / cap). */
export function softCap(tape: Tape, x: Tensor, { cap, out }: { cap: number; out: number }): Tensor {
  const { ggml, context } = tape;
  const curve = must(ggml.ggml_tanh(context, ggml.ggml_scale(context, x, 1 / cap)), "tanh");
  return tape.record(ggml.ggml_scale(context, curve, out), [x], (gradient) =>
    tape.give(x, ggml.ggml_mul(context, gradient, capSlope(tape, curve, out / cap))),
  );
}

/** by · (1 - curve²): the slope of a limited value. */
export function capSlope({ ggml, context }: Tape, curve: Tensor, by: number): Tensor {
  return must(ggml.ggml_scale_bias(context, ggml.ggml_sqr(context, curve), -by, by), "slope");
}

/** Splits the rows of x [total, n] into parts of these lengths. All parts must be used. */
export function split(tape: Tape, x: Tensor, lengths: readonly number[]): Tensor[] {
  const { ggml, context } = tape;
  const [, n1, n2, n3] = stridesOf(x);
  const gradients: Tensor[] = [];
  let at = 0;
  return lengths.map((length, i) => {
    const view = ggml.ggml_view_4d(context, x, length, shapeOf(x)[1], 1, 1, n1, n2, n3, at * 4);
    at += length;
    return tape.record(ggml.ggml_cont(context, view), [x], (gradient) => {
      gradients[i] = gradient;
      if (i > 0) return; // the backward pass comes to the first part last
      if (gradients.length !== lengths.length || gradients.includes(undefined as never))
        throw new Error("A part of a split tensor has no gradient");
      tape.give(
        x,
        gradients.reduce((a, b) => must(ggml.ggml_concat(context, a, b, 0), "concat")),
      );
    });
  });
}

/** x + c, where c does not depend on the weights: noise of the embeddings. */
export function addConstant(tape: Tape, x: Tensor, c: Tensor): Tensor {
  return tape.record(tape.ggml.ggml_add(tape.context, x, c), [x], (gradient) => tape.give(x, gradient));
}

/** x + b, b along the row. */
export function bias(tape: Tape, x: Tensor, b: Tensor): Tensor {
  const { ggml, context } = tape;
  return tape.record(ggml.ggml_add(context, x, b), [x, b], (gradient) => {
    tape.give(x, gradient);
    if (tape.needs(b)) tape.give(b, summed(tape, gradient));
  });
}

/**
 * [width, …] → [width], summed over the rest. x is transposed first: on a GPU ggml_repeat_back uses one thread per
 * column, which took most of a step's time.
 */
function summed(tape: Tape, x: Tensor): Tensor {
  const { ggml, context } = tape;
  const [width, ...rest] = shapeOf(x);
  const flat = must(
    ggml.ggml_reshape_4d(
      context,
      x,
      width,
      rest.reduce((a, b) => a * b, 1),
      1,
      1,
    ),
    "reshape",
  );
  const sums = must(ggml.ggml_sum_rows(context, transposedCopy(tape, flat)), "sum");
  return must(ggml.ggml_reshape_4d(context, sums, width, 1, 1, 1), "reshape");
}

const transposedCopy = (tape: Tape, x: Tensor): Tensor =>
  must(tape.ggml.ggml_cont(tape.context, tape.ggml.ggml_transpose(tape.context, x)), "transpose");

/** Σ over columns of a_i · b_j, both F32: the form of a weight's gradient. */
export function outer(tape: Tape, a: Tensor, b: Tensor): Tensor {
  const { ggml, context, plan } = tape;
  if (plan.multipliesOuter) return must(ggml.ggml_out_prod(context, a, b), "outer product");
  return must(ggml.ggml_mul_mat(context, transposedCopy(tape, a), transposedCopy(tape, b)), "outer product");
}

/** W·x for W [in, out] of any type, x [in, n]. */
export function linear(tape: Tape, weight: Tensor, x: Tensor): Tensor {
  return tape.record(tape.ggml.ggml_mul_mat(tape.context, weight, x), [weight, x], (gradient) => {
    if (tape.needs(weight)) tape.give(weight, outer(tape, x, gradient));
    if (tape.needs(x)) tape.give(x, transposedProduct(tape, weight, gradient));
  });
}

/** Wᵀ·dy. */
function transposedProduct(tape: Tape, weight: Tensor, gradient: Tensor): Tensor {
  const { ggml, context, plan } = tape;
  const ready = plan.transposed.get(weight);
  if (ready !== undefined) return must(ggml.ggml_mul_mat(context, ready, gradient), "product");
  const plain = isQuantized(typeOf(weight)) ? must(ggml.ggml_cast(context, weight, TYPE.F32), "cast") : weight;
  return must(ggml.ggml_mul_mat(context, transposedCopy(tape, plain), gradient), "product");
}

/** The rows of a table that a batch uses, each once, padded with unused ones; and each token's index among them. */
export type UsedRows = { used: Tensor; among: Tensor };

/**
 * Looks up rows of a table: token embeddings. The gradient is a table of only the used rows, because on a GPU its time
 * is tokens times rows.
 */
export function rows(tape: Tape, table: Tensor, ids: Tensor, of: UsedRows | null): Tensor {
  const { ggml, context, plan } = tape;
  return tape.record(ggml.ggml_get_rows(context, table, ids), [table], (gradient) => {
    const sum = plan.gradients.get(table);
    if (!of || sum === undefined) return tape.give(table, ggml.ggml_get_rows_back(context, gradient, ids, table));
    const [width] = shapeOf(table);
    const [, n1, n2, n3] = stridesOf(table);
    const like = ggml.ggml_view_4d(context, table, width, shapeOf(of.used)[0], 1, 1, n1, n2, n3, 0);
    const rowGradients = ggml.ggml_get_rows_back(context, gradient, of.among, like);
    if (plan.apart?.has(sum)) {
      const none = ggml.ggml_scale(context, sum, 0);
      return tape.give(table, ggml.ggml_set_rows(context, none, rowGradients, of.used));
    }
    plan.apart?.set(sum, []);
    const more = ggml.ggml_add(context, ggml.ggml_get_rows(context, sum, of.used), rowGradients);
    tape.emit(ggml.ggml_set_rows(context, sum, more, of.used));
  });
}

/** Normalises along the first dimension, for tokens as well as heads. */
export function rmsNorm(tape: Tape, x: Tensor, weight: Tensor, epsilon: number): Tensor {
  const { ggml, context } = tape;
  const normed = must(ggml.ggml_rms_norm(context, x, epsilon), "norm");
  return tape.record(ggml.ggml_mul(context, normed, weight), [x, weight], (gradient) => {
    if (tape.needs(weight)) tape.give(weight, summed(tape, must(ggml.ggml_mul(context, gradient, normed), "product")));
    if (tape.needs(x))
      tape.give(x, ggml.ggml_rms_norm_back(context, ggml.ggml_mul(context, gradient, weight), x, epsilon));
  });
}

export type Rope = {
  dimensions: number;
  /** 0: pairs of neighbours (llama); 2: halves (qwen). */
  mode: number;
  base: number;
  /** Divides positions: 1 / factor of linear scaling. */
  frequencyScale: number;
  /** Llama 3's factors, one for each pair; null if there are none. */
  factors: Tensor | null;
  yarn: Yarn;
};

/** x [head, heads, tokens, 1]; one position for each token. */
export function rope(tape: Tape, x: Tensor, positions: Tensor, of: Rope): Tensor {
  const { ggml, context } = tape;
  const { originalContext, mix, attentionFactor, betaFast, betaSlow } = of.yarn;
  const plain = [of.dimensions, of.mode, originalContext, of.base, of.frequencyScale] as const;
  const rest = [...plain, mix, attentionFactor, betaFast, betaSlow] as const;
  return tape.record(ggml.ggml_rope_ext(context, x, positions, of.factors, ...rest), [x], (gradient) =>
    tape.give(x, ggml.ggml_rope_ext_back(context, gradient, positions, of.factors, ...rest)),
  );
}

export function reshape(tape: Tape, x: Tensor, to: readonly [number, number, number, number]): Tensor {
  const { ggml, context } = tape;
  const from = shapeOf(x);
  return tape.record(ggml.ggml_reshape_4d(context, x, ...to), [x], (gradient) =>
    tape.give(x, ggml.ggml_reshape_4d(context, gradient, ...from)),
  );
}
