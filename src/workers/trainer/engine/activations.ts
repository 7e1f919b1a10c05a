/** Gates of the feed-forward part, each with its gradient. */

import { must } from "../../../native/ffi.ts";
import type { Tape, Tensor } from "./tape.ts";

/** silu(gate) ⊙ up. */
export function swiglu(tape: Tape, gate: Tensor, up: Tensor): Tensor {
  const { ggml, context } = tape;
  return tape.record(ggml.ggml_swiglu_split(context, gate, up), [gate, up], (gradient) => {
    tape.give(gate, ggml.ggml_silu_back(context, ggml.ggml_mul(context, gradient, up), gate));
    tape.give(up, ggml.ggml_mul(context, gradient, ggml.ggml_silu(context, gate)));
  });
}

const GELU = { slope: 2 * Math.sqrt(2 / Math.PI), cube: 0.044715 };

/**
 * gelu(gate) ⊙ up, with gelu's tanh form: gelu(x) = x · σ(z), where z = slope · x · (1 + cube · x²). ggml's own
 * function reads a table in F16, whose steps are no gradient.
 */
export function geglu(tape: Tape, gate: Tensor, up: Tensor): Tensor {
  const { ggml, context } = tape;
  const { slope, cube } = GELU;
  const product = (a: bigint | Tensor | null, b: bigint | Tensor | null) =>
    must(ggml.ggml_mul(context, must(a, "gelu"), must(b, "gelu")), "product");
  const parts = () => {
    const square = must(ggml.ggml_sqr(context, gate), "square");
    const inner = product(gate, ggml.ggml_scale_bias(context, square, slope * cube, slope));
    return { square, share: must(ggml.ggml_sigmoid(context, inner), "sigmoid") };
  };
  const forward = parts();
  return tape.record(product(product(gate, forward.share), up), [gate, up], (gradient) => {
    const { square, share } = parts(); // computed again, which takes less memory
    const gelu = product(gate, share);
    if (tape.needs(gate)) {
      // σ + x · σ · (1 - σ) · dz/dx
      const rest = ggml.ggml_scale_bias(context, share, -1, 1);
      const inner = ggml.ggml_scale_bias(context, square, 3 * slope * cube, slope);
      const slopeOf = ggml.ggml_add(context, share, product(product(gelu, rest), inner));
      tape.give(gate, product(product(gradient, up), slopeOf));
    }
    tape.give(up, product(gradient, gelu));
  });
}

const OAI = { slope: 1.702, limit: 7 };
const LOWEST = -1e30;

/** g · σ(slope · g) · (1 + u), where g is gate up to the limit, and u is up between both limits: gpt-oss. */
export function swigluOai(tape: Tape, gate: Tensor, up: Tensor): Tensor {
  const { ggml, context } = tape;
  const { slope, limit } = OAI;
  type Node = bigint | Tensor | null;
  const product = (a: Node, b: Node) => must(ggml.ggml_mul(context, must(a, "gate"), must(b, "gate")), "product");
  const parts = () => {
    const g = must(ggml.ggml_clamp(context, gate, LOWEST, limit), "clamp");
    const u = must(ggml.ggml_clamp(context, up, -limit, limit), "clamp");
    const share = must(ggml.ggml_sigmoid(context, ggml.ggml_scale(context, g, slope)), "sigmoid");
    return { g, share, glu: product(g, share), more: must(ggml.ggml_scale_bias(context, u, 1, 1), "bias") };
  };
  /** 1 where x is below the limit in the direction of `sign`, 0 elsewhere. */
  const inside = (x: Tensor, sign: number) => ggml.ggml_step(context, ggml.ggml_scale_bias(context, x, -sign, limit));
  const forward = parts();
  return tape.record(product(forward.glu, forward.more), [gate, up], (gradient) => {
    const { share, glu, more } = parts();
    // σ + slope · g · σ · (1 - σ)
    const rest = ggml.ggml_scale_bias(context, share, -slope, slope);
    const slopeOf = ggml.ggml_add(context, share, product(glu, rest));
    tape.give(gate, product(product(product(gradient, more), slopeOf), inside(gate, 1)));
    tape.give(up, product(product(gradient, glu), product(inside(up, 1), inside(up, -1))));
  });
}
