/**
 * Reverse-mode differentiation over graphs of ggml. Each operation adds its forward nodes to the graph at once and
 * remembers how to add its backward ones. ggml's own is not used: it cannot weight tokens, wants every weight in F32,
 * and knows no recomputation.
 */

import { must } from "../../../native/ffi.ts";
import type { Ggml, Ptr } from "../../../native/ggml/ggml.ts";
import { shapeOf } from "../../../native/ggml/symbols.ts";

export type Tensor = Ptr;

/** What all tapes of one graph share. */
export type Plan = {
  readonly ggml: Ggml;
  /** Where nodes are described. */
  readonly context: Ptr;
  readonly graph: Ptr;
  /** Trainable weights and where their gradients add up, over micro-batches too. */
  readonly gradients: ReadonlyMap<Tensor, Tensor>;
  /** Of frozen weights, where there is one: the same transposed, so that a backward product needs no copy. */
  readonly transposed: ReadonlyMap<Tensor, Tensor>;
  /** The device has a product of columns by itself; otherwise both sides are turned first. */
  readonly multipliesOuter: boolean;
};

export class Tape {
  readonly #backward: (() => void)[] = [];
  readonly #found = new Map<Tensor, Tensor>(); // gradients of what is not a weight
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

  /** Fixes the place of a node in the order of computation. */
  emit(node: Tensor | bigint | null): Tensor {
    const made = must(node, "an operation");
    this.ggml.ggml_build_forward_expand(this.plan.graph, made);
    return made;
  }

  /** A node made of `inputs`; `back` gets its gradient, if it has one, and passes it on with `give`. */
  record(node: Tensor | bigint | null, inputs: readonly Tensor[], back: (gradient: Tensor) => void): Tensor {
    const made = this.emit(node);
    if (!this.records || !inputs.some((input) => this.#needs.has(input))) return made;
    this.#needs.add(made);
    this.#backward.push(() => {
      const gradient = this.#found.get(made);
      if (gradient === undefined) return; // nothing that counts depends on it
      this.#found.delete(made);
      back(gradient);
    });
    return made;
  }

  /** Adds to the gradient of `tensor`. */
  give(tensor: Tensor, gradient: Tensor | bigint | null) {
    if (!this.#needs.has(tensor)) return;
    const more = must(gradient, "a gradient");
    const sum = this.plan.gradients.get(tensor);
    if (sum !== undefined) {
      this.emit(this.ggml.ggml_add_inplace(this.context, sum, more));
      return;
    }
    const before = this.#found.get(tensor);
    this.#found.set(tensor, this.emit(before === undefined ? more : this.ggml.ggml_add(this.context, before, more)));
  }

  /** What `begin` gives is the gradient that everything starts from; it runs first. */
  startFrom(begin: () => void) {
    if (this.records) this.#backward.push(begin);
  }

  backward() {
    for (let step = this.#backward.pop(); step; step = this.#backward.pop()) step();
  }

  /** Builds on an alias of `x`, goes back from the gradient of what was built, and answers with that of `x`. */
  through(x: Tensor, build: (alias: Tensor) => { out: Tensor; gradient: Tensor }): Tensor | undefined {
    const alias = must(this.ggml.ggml_reshape_4d(this.context, x, ...shapeOf(x)), "alias"); // nodes of its own
    this.#needs.add(alias);
    const { out, gradient } = build(alias);
    this.#found.set(out, gradient);
    this.backward();
    return this.#found.get(alias);
  }

  /**
   * Keeps only `x` of what `build` makes, and makes it again on the way back: memory for time. `build` must do nothing
   * but add nodes.
   */
  checkpoint(x: Tensor, build: (tape: Tape, x: Tensor) => Tensor): Tensor {
    const out = build(new Tape(this.plan, false), x);
    if (!this.records) return out;
    return this.record(out, [x, ...this.plan.gradients.keys()], (gradient) => {
      const again = new Tape(this.plan, true);
      const found = again.through(x, (alias) => ({ out: build(again, alias), gradient }));
      if (found !== undefined) this.give(x, found);
    });
  }
}
