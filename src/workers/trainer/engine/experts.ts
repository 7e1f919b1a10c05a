/**
 * Feed-forward part of a mixture of experts. A router chooses some experts for each token and mixes their results.
 * Experts and router are frozen; gradients go through both to the layer's input. The choice itself has no gradient.
 */

import { must } from "../../../native/ffi.ts";
import { isQuantized, TYPE } from "../../../native/ggml/ggml.ts";
import { shapeOf, typeOf } from "../../../native/ggml/symbols.ts";
import { swiglu, swigluOai } from "./activations.ts";
import type { Experts } from "./families.ts";
import { bias, linear, reshape } from "./ops.ts";
import type { Tape, Tensor } from "./tape.ts";
import type { Weights } from "./weights.ts";

/** x [width, tokens] → the same shape. */
export function mixture(tape: Tape, weights: Weights, x: Tensor, of: { layer: number; experts: Experts }): Tensor {
  const { ggml, context } = tape;
  const name = (part: string) => `blk.${of.layer}.ffn_${part}`;
  const [width, tokens] = shapeOf(x);
  const plain = linear(tape, weights.get(name("gate_inp.weight")), x);
  const biasName = name("gate_inp.bias");
  const logits = weights.has(biasName) ? bias(tape, plain, weights.get(biasName)) : plain;
  const chosen = must(ggml.ggml_argsort_top_k(context, logits, of.experts.used), "top k"); // [used, tokens]
  // The same as a softmax of all, divided by the sum of the chosen.
  const shares = softMax(tape, pick(tape, logits, chosen));

  const product = (part: string, from: Tensor) => {
    const y = expertLinear(tape, weights.get(name(`${part}_exps.weight`)), from, chosen);
    const added = name(`${part}_exps.bias`);
    if (!weights.has(added)) return y;
    return tape.record(ggml.ggml_add_id(context, y, weights.get(added), chosen), [y], (gradient) =>
      tape.give(y, gradient),
    );
  };
  const token = reshape(tape, x, [width, 1, tokens, 1]);
  const [gate, up] = [product("gate", token), product("up", token)];
  const inner = of.experts.activation === "oai" ? swigluOai(tape, gate, up) : swiglu(tape, gate, up);
  return mix(tape, product("down", inner), shares);
}

/** Along the first dimension. ggml's own backward operation may overwrite the shares that it reads. */
function softMax(tape: Tape, x: Tensor): Tensor {
  const { ggml, context } = tape;
  const shares = must(ggml.ggml_soft_max(context, x), "softmax");
  return tape.record(shares, [x], (gradient) => {
    const mean = ggml.ggml_sum_rows(context, ggml.ggml_mul(context, gradient, shares));
    tape.give(x, ggml.ggml_mul(context, ggml.ggml_sub(context, gradient, mean), shares));
  });
}

/** scores [experts, tokens], chosen [used, tokens] → [used, tokens]. */
function pick(tape: Tape, scores: Tensor, chosen: Tensor): Tensor {
  const { ggml, context } = tape;
  const [experts, tokens] = shapeOf(scores);
  const [used] = shapeOf(chosen);
  const rows = (x: Tensor, count: number) => must(ggml.ggml_reshape_4d(context, x, 1, count, tokens, 1), "reshape");
  const chosenScores = must(ggml.ggml_get_rows(context, rows(scores, experts), chosen), "rows");
  const flat = ggml.ggml_reshape_4d(context, chosenScores, used, tokens, 1, 1);
  return tape.record(flat, [scores], (gradient) => {
    const none = must(ggml.ggml_scale(context, scores, 0), "zero");
    const written = must(ggml.ggml_set_rows(context, rows(none, experts), rows(gradient, used), chosen), "rows");
    tape.give(scores, ggml.ggml_reshape_4d(context, written, experts, tokens, 1, 1));
  });
}

/** W [in, out, experts], x [in, 1 or used, tokens] → [out, used, tokens]. W is frozen. */
function expertLinear(tape: Tape, weight: Tensor, x: Tensor, chosen: Tensor): Tensor {
  const { ggml, context } = tape;
  return tape.record(ggml.ggml_mul_mat_id(context, weight, x, chosen), [x], (gradient) => {
    const plain = isQuantized(typeOf(weight)) ? must(ggml.ggml_cast(context, weight, TYPE.F32), "cast") : weight;
    const turned = must(ggml.ggml_cont(context, ggml.ggml_transpose(context, plain)), "transpose");
    const each = must(ggml.ggml_mul_mat_id(context, turned, gradient, chosen), "product"); // [in, used, tokens]
    tape.give(x, shapeOf(x)[1] === 1 ? summed(tape, each) : each);
  });
}

/** [width, used, tokens] → [width, 1, tokens]. */
function summed({ ggml, context }: Tape, x: Tensor): Tensor {
  const [width, , tokens] = shapeOf(x);
  const turned = must(ggml.ggml_cont(context, ggml.ggml_permute(context, x, 1, 0, 2, 3)), "permute");
  return must(ggml.ggml_reshape_4d(context, ggml.ggml_sum_rows(context, turned), width, 1, tokens, 1), "reshape");
}

/** The results of the chosen experts [width, used, tokens], weighted with shares [used, tokens] → [width, tokens]. */
function mix(tape: Tape, results: Tensor, shares: Tensor): Tensor {
  const { ggml, context } = tape;
  const [width, used, tokens] = shapeOf(results);
  const factors = must(ggml.ggml_reshape_4d(context, shares, 1, used, tokens, 1), "reshape");
  const weighted = must(ggml.ggml_mul(context, results, factors), "product");
  const flat = ggml.ggml_reshape_4d(context, summed(tape, weighted), width, tokens, 1, 1);
  return tape.record(flat, [results, shares], (gradient) => {
    const one = must(ggml.ggml_reshape_4d(context, gradient, width, 1, tokens, 1), "reshape");
    const all = must(ggml.ggml_repeat_4d(context, one, width, used, tokens, 1), "repeat");
    tape.give(results, ggml.ggml_mul(context, all, factors));
    const dots = ggml.ggml_sum_rows(context, ggml.ggml_mul(context, results, all));
    tape.give(shares, ggml.ggml_reshape_4d(context, dots, used, tokens, 1, 1));
  });
}
