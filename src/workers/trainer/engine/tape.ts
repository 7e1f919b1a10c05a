/**
 * Reverse-mode differentiation over ggml graphs. Each operation adds its forward nodes at once and remembers how to add
 * its backward nodes. ggml's own differentiation cannot weight tokens, needs every weight in F32, and has no
 * recomputation.
 */

import { must } from "../../../native/ffi.ts";
import type { Ggml, Ptr } from "../../../native/ggml/ggml.ts";
import { shapeOf } from "../../../native/ggml/symbols.ts";

export type Tensor = Ptr;

/** Shared by all tapes of one graph. */
export type Plan = {
  readonly ggml: Ggml;
  /** The context that holds the nodes. */
  readonly context: Ptr;
  readonly graph: Ptr;
  /** Trainable weights and the sums of their gradients over micro-batches. */
  readonly gradients: ReadonlyMap<Tensor, Tensor>;
  /** Transposed copies of frozen weights, if they exist: a backward product then needs no copy. */
  readonly transposed: ReadonlyMap<Tensor, Tensor>;
  /**
   * Null: all gradients of a weight are added to its sum. Otherwise only the first one is, and this map, by the sum,
   * keeps the later ones apart: another process adds them in the same order, so that its sum has the same bits.
   */
  readonly apart: Map<Tensor, Tensor[]> | null;
  /** True if the device supports outer products; otherwise both sides are transposed first. */
  readonly multipliesOuter: boolean;
};

export class Tape {
  readonly #backward: (() => void)[] = [];
  readonly #found = new Map<Tensor, Tensor>(); // gradients of intermediate tensors
  readonly #needs = new Set<Tensor>();

  constructor(
    readonly plan: Plan,
    /** False: forward only. */
    readonly records: boolean,
  ) {
    if (records) for (const weight of plan.gradients.keys()) this.#needs.add(weight);
  }

  get ggml() {
    return this.plan.ggml;
  }
  get context() {
    return this.plan.context;
  }

  needs(tensor: Tensor): boolean {
    return this.#needs.has(tensor);
  }

  /** Fixes the position of a node in the order of computation. */
  emit(node: Tensor | bigint | null): Tensor {
    const tensor = must(node, "an operation");
    this.ggml.ggml_build_forward_expand(this.plan.graph, tensor);
    return tensor;
  }

  /** Adds a node computed from `inputs`. `back` gets its gradient, if it has one, and passes it on with `give`. */
  record(node: Tensor | bigint | null, inputs: readonly Tensor[], back: (gradient: Tensor) => void): Tensor {
    const tensor = this.emit(node);
    if (!this.records || !inputs.some((input) => this.#needs.has(input))) return tensor;
    this.#needs.add(tensor);
    this.#backward.push(() => {
      const gradient = this.#found.get(tensor);
      if (gradient === undefined) return; // no result depends on it
      this.#found.delete(tensor);
      back(gradient);
    });
    return tensor;
  }

  /** Adds to the gradient of `tensor`. */
  give(tensor: Tensor, gradient: Tensor | bigint | null) {
    if (!this.#needs.has(tensor)) return;
    const more = must(gradient, "a gradient");
    const sum = this.plan.gradients.get(tensor);
    if (sum !== undefined) return this.#add(sum, more);
    const before = this.#found.get(tensor);
    this.#found.set(tensor, this.emit(before === undefined ? more : this.ggml.ggml_add(this.context, before, more)));
  }

  #add(sum: Tensor, more: Tensor) {
    const later = this.plan.apart?.get(sum);
    if (!later) {
      this.plan.apart?.set(sum, []);
      this.emit(this.ggml.ggml_add_inplace(this.context, sum, more));
      return;
    }
    const kept = this.emit(this.ggml.ggml_cont(this.context, more));
    this.ggml.ggml_set_output(kept); // nothing may overwrite it before it is read
    later.push(kept);
  }

  /** `begin` gives the gradient that the backward pass starts from; it runs first. */
  startFrom(begin: () => void) {
    if (this.records) this.#backward.push(begin);
  }

  backward() {
    for (let step = this.#backward.pop(); step; step = this.#backward.pop()) step();
  }

  /** Builds on an alias of `x`, runs backward from the gradient of the result, and returns the gradient of `x`. */
  through(x: Tensor, build: (alias: Tensor) => { out: Tensor; gradient: Tensor }): Tensor | undefined {
    const alias = must(this.ggml.ggml_reshape_4d(this.context, x, ...shapeOf(x)), "alias"); // separate nodes
    this.#needs.add(alias);
    const { out, gradient } = build(alias);
    this.#found.set(out, gradient);
    this.backward();
    return this.#found.get(alias);
  }

  /**
   * Keeps only `x` and runs `build` again in the backward pass: less memory for more time. `build` must only add nodes.
   */
  checkpoint(x: Tensor, build: (tape: Tape, x: Tensor) => Tensor): Tensor {
    const out = build(new Tape(this.plan, false), x);
    if (!this.records) return out;
    return this.record(out, [x, ...this.plan.gradients.keys()], (gradient) => {
      const again = new Tape(this.plan, true);
      const inputGradient = again.through(x, (alias) => ({ out: build(again, alias), gradient }));
      if (inputGradient !== undefined) this.give(x, inputGradient);
    });
  }
}
