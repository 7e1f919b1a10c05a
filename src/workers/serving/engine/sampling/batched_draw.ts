/**
 * Draws the tokens of all slots together inside the graph. The library gives every sequence its own sampler, whose
 * kernels each see one row. Here the first sampler computes all rows at once and the others do nothing. A token is the
 * first whose cumulated probability exceeds the slot's next random number. Slot, token and log-probability come back as
 * one small array, not as copies for each sequence. Temperatures and seeds are inputs, so the graph stays the same when
 * they change.
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

/** `sure`: slots whose row is not 0. All of them have a token in the graph. */
type Built = { input: Ptr; width: number; rows: number; result: Ptr; sure: number };
/** `next`: the random number for the next token. */
type State = { random: Random; perTemperature: number; next: number; token: number; logp: number };

const PLANES = 3; // random number, 1 / temperature, slot; one value per row each
const FIELDS = 3; // slot, token, log-probability of each row
const NO_SLOT = -1;
const UNDRAWN = -1;
const STEPS = 2 ** 23; // such numbers are below 1, and their product with a sum is below the sum in 32 bits

export class BatchedDraw {
  readonly #llama: Llama;
  readonly #context: Ptr;
  readonly #samplers: GraphSamplers;
  readonly #slots = new Map<number, State>();
  // All three describe the last graph built. A slot without a token also has row 0, but sets no input.
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

  /** One result must fit into the library's buffer for the probabilities of one row. */
  static fits(vocabSize: number, parallel: number) {
    return FIELDS * (parallel + 1) <= vocabSize;
  }

  /** Sets the temperature and the seed of the slot. */
  use(slot: number, temperature: number, seed: number) {
    const random = openRandom(seed);
    this.#slots.set(slot, { random, perTemperature: 1 / temperature, next: 0, token: UNDRAWN, logp: 0 });
  }

  sampler(slot: number): Ptr {
    this.#lastApplied = Number.POSITIVE_INFINITY; // the library tries the sampler at once, in a graph that it discards
    return this.#samplers.open({
      apply: (context, outputs) => this.#apply(slot, context, outputs),
      setInput: () => this.#setInput(slot),
    });
  }

  /**
   * Call before a decode; `slots` are those that draw in it. The library reuses its last graph only for the same slots,
   * so their inputs can be written ahead. If it builds another graph, it asks for them.
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

  /** Call after a decode: reads the drawn tokens. `rows` maps slots to rows of the batch. */
  gather(rows: Iterable<readonly [slot: number, row: number]>) {
    for (const [slot, row] of rows) if (this.#slots.get(slot)?.token === UNDRAWN) this.#read(row);
  }

  /** Call after a failed decode: the state of its graph is unknown. */
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
   * A slot without a token in this graph also gets row 0, and its answer is dropped. The owner of row 0 answers, and so
   * does the first other slot, in case another slot draws row 0.
   */
  #apply(slot: number, context: Ptr, { logits, answer }: Outputs) {
    const begins = slot <= this.#lastApplied; // the library applies slots in order
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
    this.#values.fill(NO_SLOT, 2 * rows);
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

  /** The last slot uploads the inputs of all: only then is it known which slot owns row 0. */
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
