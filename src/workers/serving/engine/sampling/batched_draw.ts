/**
 * Tokens of all slots drawn together inside the graph. The library gives every sequence a sampler of its own, whose
 * kernels each see one row; here the first that is asked computes all rows at once and the others do nothing. A token
 * is the first whose cumulated probability exceeds the slot's next random number. Slot, token and its log-probability
 * come back as one small array, not as copies for each sequence.
 *
 * The graph stays as it is while temperatures and seeds change: they are inputs.
 */
import { type Pointer, ptr, toArrayBuffer } from "bun:ffi";
import { openRandom, type Random } from "../../../../lib/random.ts";
import { must, type Ptr } from "../../../../native/ffi.ts";
import {
  F32,
  type GraphSamplers,
  I32,
  type Outputs,
  offsetOf,
  sizeOf,
  wholeOf,
} from "../../../../native/llama/graph_sampler.ts";
import type { Llama } from "../../../../native/llama/symbols.ts";

/** `sure`: slots whose row is not 0, which all have a token in the graph. */
type Built = { input: Ptr; width: number; rows: number; result: Ptr; sure: number };
/** `next`: the random number of the next token. */
type State = { random: Random; perTemperature: number; next: number; token: number; logp: number };

const PLANES = 3; // random number, 1 / temperature, slot; each for all rows
const FIELDS = 3; // slot, token, log-probability; for each row
const NOBODY = -1;
const UNDRAWN = -1;
const STEPS = 2 ** 23; // numbers below 1 whose product with a sum is below the sum in 32 bits

export class BatchedDraw {
  readonly #llama: Llama;
  readonly #context: Ptr;
  readonly #samplers: GraphSamplers;
  readonly #slots = new Map<number, State>();
  // All three are of the graph that was built last. A slot without a token has row 0 too, but sets no input.
  #built: Built | null = null;
  readonly #rowOf = new Map<number, number>();
  readonly #set = new Set<number>();
  #lastApplied = Number.POSITIVE_INFINITY; // a graph begins with the lowest slot
  #values = new Float32Array(0);

  constructor(llama: Llama, context: Ptr, samplers: GraphSamplers) {
    this.#llama = llama;
    this.#context = context;
    this.#samplers = samplers;
  }

  /** One result must fit where the library keeps the probabilities of one row. */
  static fits(vocabSize: number, parallel: number) {
    return FIELDS * (parallel + 1) <= vocabSize;
  }

  /** What the slot draws with from now on. */
  use(slot: number, temperature: number, seed: number) {
    const random = openRandom(seed);
    this.#slots.set(slot, { random, perTemperature: 1 / temperature, next: 0, token: UNDRAWN, logp: 0 });
  }

  sampler(slot: number): Ptr {
    this.#lastApplied = Number.POSITIVE_INFINITY; // the library tries it out at once, in a graph that it drops
    return this.#samplers.open({
      apply: (context, outputs) => this.#apply(slot, context, outputs),
      setInput: () => this.#setInput(slot),
    });
  }

  /**
   * Before a decode: `slots` are those that draw in it. The library runs its last graph again only for the same slots,
   * so their inputs can be there ahead; if it builds another, it asks for them.
   */
  prepare(slots: ReadonlySet<number>) {
    this.#lastApplied = Number.POSITIVE_INFINITY;
    for (const slot of slots) {
      const state = this.#slots.get(slot)!;
      state.next = Math.floor(state.random() * STEPS) / STEPS;
    }
    const again = this.#set.size > 0 && this.#set.isSubsetOf(slots);
    if (again) {
      for (const slot of this.#set) this.#put(slot);
      this.#upload();
    }
    this.#samplers.callSetInput(!again);
  }

  /** After a decode: reads what was drawn. `rows` of the batch, by slot. */
  gather(rows: Iterable<readonly [slot: number, row: number]>) {
    for (const [slot, row] of rows) if (this.#slots.get(slot)?.token === UNDRAWN) this.#read(row);
  }

  /** After a decode that failed: nobody knows what became of its graph. */
  forget() {
    this.#set.clear();
  }

  take(slot: number): { token: number; logp: number } {
    const state = this.#slots.get(slot);
    if (!state || state.token === UNDRAWN) throw new Error(`nothing was drawn for slot ${slot}`);
    const { token, logp } = state;
    state.token = UNDRAWN;
    return { token, logp };
  }

  #read(row: number) {
    const at = this.#llama.llama_get_sampled_probs_ith(this.#context, row);
    if (!at) return;
    const count = this.#llama.llama_get_sampled_probs_count_ith(this.#context, row);
    const fields = new Float32Array(toArrayBuffer(at as Pointer, 0, count * 4));
    for (let i = 0; i < count; i += FIELDS) {
      const state = this.#slots.get(fields[i]!);
      if (!state) continue;
      state.token = fields[i + 1]!;
      state.logp = fields[i + 2]!;
    }
  }

  /**
   * A slot that has no token in this graph is shown row 0 too, and its answer is dropped: whoever has row 0 answers,
   * and so does the first of the others, for the case that row 0 is drawn by somebody else.
   */
  #apply(slot: number, context: Ptr, { logits, answer }: Outputs) {
    const begins = slot <= this.#lastApplied; // slots come in order
    this.#lastApplied = slot;
    if (begins || !this.#built) this.#built = this.#begin(context, wholeOf(logits));
    const built = this.#built;
    const row = offsetOf(logits) / (4 * built.width);
    this.#rowOf.set(slot, row);
    if (row > 0) built.sure++;
    answer(row === 0 || built.sure === 1 ? built.result : null);
  }

  #begin(context: Ptr, logits: Ptr): Built {
    const { width, rows } = sizeOf(logits);
    this.#rowOf.clear();
    this.#set.clear();
    this.#values = new Float32Array(rows * PLANES);
    this.#values.fill(1, rows, 2 * rows);
    this.#values.fill(NOBODY, 2 * rows);
    this.#samplers.callSetInput(true);
    return this.#build(context, logits, width, rows);
  }

  #build(context: Ptr, logits: Ptr, width: number, rows: number): Built {
    const g = this.#llama;
    const input = must(g.ggml_new_tensor_2d(context, F32, rows, PLANES), "input");
    g.ggml_set_input(input);
    const plane = (i: number) => g.ggml_view_2d(context, input, 1, rows, 4, 4 * i * rows); // (1, rows)
    const [random, perTemperature, slot] = [plane(0), plane(1), plane(2)];
    const p = g.ggml_soft_max(context, g.ggml_mul(context, logits, perTemperature)); // (V, rows)
    const sums = g.ggml_cumsum(context, p);
    const total = g.ggml_view_2d(context, sums, 1, rows, 4 * width, 4 * (width - 1)); // (1, rows): 1, but for rounding
    const above = g.ggml_step(context, g.ggml_sub(context, sums, g.ggml_mul(context, random, total)));
    const count = g.ggml_clamp(context, g.ggml_sum_rows(context, above), 1, width); // (1, rows)
    const token = g.ggml_scale_bias(context, count, -1, width);
    const columns = g.ggml_reshape_3d(context, p, 1, width, rows);
    const chosen = g.ggml_get_rows(context, columns, g.ggml_cast(context, token, I32)); // (1, 1, rows)
    const logp = g.ggml_log(context, g.ggml_reshape_2d(context, chosen, 1, rows));
    const result = g.ggml_concat(context, g.ggml_concat(context, slot, token, 0), logp, 0); // (FIELDS, rows)
    return { input, width, rows, result: must(result, "result"), sure: 0 };
  }

  /** Whoever comes last uploads for all; whether row 0 is ours is not known until its slot comes. */
  #setInput(slot: number) {
    this.#set.add(slot);
    this.#put(slot);
    if (this.#set.size >= (this.#built?.sure ?? 0)) this.#upload();
  }

  #put(slot: number) {
    const state = this.#slots.get(slot);
    const row = this.#rowOf.get(slot);
    if (!state || row === undefined || !this.#built) return;
    const { rows } = this.#built;
    this.#values[row] = state.next;
    this.#values[rows + row] = state.perTemperature;
    this.#values[2 * rows + row] = slot;
  }

  #upload() {
    if (!this.#built) return;
    this.#llama.ggml_backend_tensor_set(this.#built.input, ptr(this.#values), 0, this.#values.byteLength);
  }
}
