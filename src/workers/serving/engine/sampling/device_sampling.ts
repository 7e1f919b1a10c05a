/**
 * Samplers inside the context's own graph. The device draws the token, so the CPU does not scan the vocabulary for
 * every sequence. Slots that need only a temperature are drawn together (batched_draw.ts); others have their own chain.
 * A changed chain makes the library plan its graphs again. A chain therefore stays while the requests of its slot need
 * the same one, and only its generator state is exchanged.
 */

import { must, type Ptr } from "../../../../native/ffi.ts";
import { type GraphSamplers, openGraphSamplers } from "../../../../native/llama/graph_sampler.ts";
import type { Llama } from "../../../../native/llama/symbols.ts";
import type { Sequence } from "../sequence.ts";
import { BatchedDraw } from "./batched_draw.ts";
import { type Choice, type Drawer, GREEDY_BELOW, openChain, Sampler, type SamplerNative } from "./sampler.ts";

type Attached = { chain: Ptr; settings: string };
/**
 * Requested scores of each token: the number of alternatives (-1 = none), and the temperature that divides the logits.
 */
type Scores = { topLogprobs: number; logprobTemperature: number };

const TOGETHER = "together";

export class DeviceSampling {
  readonly #native: SamplerNative;
  readonly #llama: Llama;
  readonly #context: Ptr;
  readonly #attached = new Map<number, Attached>();
  readonly #samplers: GraphSamplers | null;
  readonly #batched: BatchedDraw | null;
  readonly #drawing = new Map<number, number>(); // slots drawn together in the current batch, and their rows

  constructor(native: SamplerNative, context: Ptr, parallel: number) {
    this.#native = native;
    this.#llama = native.llama;
    this.#context = context;
    this.#samplers = openGraphSamplers(native.llama);
    const samplers = BatchedDraw.fits(native.vocabSize, parallel) ? this.#samplers : null;
    this.#batched = samplers && new BatchedDraw(native.llama, context, samplers);
  }

  /** Returns the drawer of `slot`, or null if the request needs its logits on the CPU. */
  use(slot: number, choice: Choice, scores: Scores): Drawer | null {
    const { frequencyPenalty, presencePenalty, temperature } = choice.sampling;
    if (this.#batched && onlyTemperature(choice) && alike(scores, temperature)) {
      this.#batched.use(slot, temperature, choice.seed);
      return this.#together(slot);
    }
    if (scores.topLogprobs >= 0 || choice.grammar !== null || frequencyPenalty !== 0 || presencePenalty !== 0) {
      this.#detach(slot);
      return null;
    }
    const settings = JSON.stringify([{ ...choice.sampling, seed: 0 }, choice.ignoreEos]);
    const chain = openChain(this.#native, choice);
    if (this.#samplers) this.#llama.llama_sampler_chain_add(chain, this.#samplers.openQuiet());
    const old = this.#attached.get(slot);
    if (old?.settings === settings) {
      this.#llama.llama_sampler_copy(chain, old.chain);
      this.#llama.llama_sampler_free(chain);
      return new Sampler(this.#native, choice, old.chain);
    }
    return this.#attach(slot, chain, settings) ? new Sampler(this.#native, choice, chain) : null;
  }

  /** Returns the existing drawer and changes nothing. */
  of(slot: number, choice: Choice): Drawer | null {
    const attached = this.#attached.get(slot);
    if (!attached) return null;
    return attached.settings === TOGETHER
      ? new Together(this.#batched!, slot)
      : new Sampler(this.#native, choice, attached.chain);
  }

  /** Call before a decode. */
  prepare(owners: readonly (Sequence | null)[]) {
    if (!this.#batched) return;
    this.#drawing.clear();
    for (const owner of owners) {
      if (owner !== null && owner.row >= 0 && owner.sampler instanceof Together)
        this.#drawing.set(owner.slot, owner.row);
    }
    this.#batched.prepare(new Set(this.#drawing.keys()));
  }
  gather() {
    this.#batched?.gather(this.#drawing);
  }
  /** Call instead of `gather` when the decode failed. */
  forget() {
    this.#batched?.forget();
  }

  #together(slot: number): Drawer | null {
    if (this.#attached.get(slot)?.settings !== TOGETHER) {
      const chain = must(this.#llama.llama_sampler_chain_init(1), "llama_sampler_chain_init");
      this.#llama.llama_sampler_chain_add(chain, this.#batched!.sampler(slot));
      if (!this.#attach(slot, chain, TOGETHER)) return null;
    }
    return new Together(this.#batched!, slot);
  }

  #attach(slot: number, chain: Ptr, settings: string): boolean {
    this.#detach(slot);
    if (!this.#llama.llama_set_sampler(this.#context, slot, chain)) {
      this.#llama.llama_sampler_free(chain);
      return false;
    }
    this.#attached.set(slot, { chain, settings });
    return true;
  }

  #detach(slot: number) {
    const old = this.#attached.get(slot);
    if (!old) return;
    this.#llama.llama_set_sampler(this.#context, slot, null);
    this.#llama.llama_sampler_free(old.chain);
    this.#attached.delete(slot);
  }

  /** Call after the context was freed. */
  free() {
    for (const { chain } of this.#attached.values()) this.#llama.llama_sampler_free(chain);
    this.#attached.clear();
    this.#samplers?.close();
  }
}

class Together implements Drawer {
  logp = Number.NaN;
  readonly #batched: BatchedDraw;
  readonly #slot: number;

  constructor(batched: BatchedDraw, slot: number) {
    this.#batched = batched;
    this.#slot = slot;
  }

  draw(): number {
    const { token, logp } = this.#batched.take(this.#slot);
    this.logp = logp;
    return token;
  }

  free() {}
}

const onlyTemperature = ({ sampling, grammar, ignoreEos }: Choice) =>
  sampling.temperature >= GREEDY_BELOW &&
  sampling.topP >= 1 &&
  sampling.topK <= 0 &&
  sampling.minP <= 0 &&
  sampling.frequencyPenalty === 0 &&
  sampling.presencePenalty === 0 &&
  sampling.logitBias.length === 0 &&
  grammar === null &&
  !ignoreEos;

/** True if drawing together yields the requested scores. */
const alike = ({ topLogprobs, logprobTemperature }: Scores, temperature: number) =>
  topLogprobs < 0 || (topLogprobs === 0 && logprobTemperature === temperature);
