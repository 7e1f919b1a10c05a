/**
 * Sampler chains inside the context's own graph: the device draws the token, and the CPU does not touch a vocabulary
 * per sequence. A chain belongs to a slot. Changing it makes the library plan its graphs anew, so a chain stays as long
 * as the requests of its slot ask for the same; only the state of its generator is exchanged.
 */
import type { Llama, Ptr } from "../../../native/llama_symbols.ts";
import { type Choice, openChain, type SamplerNative } from "./sampler.ts";

type Attached = { chain: Ptr; settings: string };

export class DeviceSampling {
  readonly #native: SamplerNative;
  readonly #llama: Llama;
  readonly #context: Ptr;
  readonly #attached = new Map<number, Attached>();

  constructor(native: SamplerNative, context: Ptr) {
    this.#native = native;
    this.#llama = native.llama;
    this.#context = context;
  }

  /** The chain that draws for `slot`, or null when the request needs its logits on the CPU. */
  use(slot: number, choice: Choice, wantsLogits: boolean): Ptr | null {
    const { frequencyPenalty, presencePenalty } = choice.sampling;
    if (wantsLogits || choice.grammar !== null || frequencyPenalty !== 0 || presencePenalty !== 0) {
      this.#detach(slot);
      return null;
    }
    const settings = JSON.stringify([{ ...choice.sampling, seed: 0 }, choice.ignoreEos]);
    const chain = openChain(this.#native, choice);
    const old = this.#attached.get(slot);
    if (old?.settings === settings) {
      this.#llama.llama_sampler_copy(chain, old.chain);
      this.#llama.llama_sampler_free(chain);
      return old.chain;
    }
    this.#detach(slot);
    if (!this.#llama.llama_set_sampler(this.#context, slot, chain)) {
      this.#llama.llama_sampler_free(chain);
      return null;
    }
    this.#attached.set(slot, { chain, settings });
    return chain;
  }

  /** The chain that is there already: to leave everything as it is. */
  of(slot: number): Ptr | null {
    return this.#attached.get(slot)?.chain ?? null;
  }

  #detach(slot: number) {
    const old = this.#attached.get(slot);
    if (!old) return;
    this.#llama.llama_set_sampler(this.#context, slot, null);
    this.#llama.llama_sampler_free(old.chain);
    this.#attached.delete(slot);
  }

  /** After the context is gone. */
  free() {
    for (const { chain } of this.#attached.values()) this.#llama.llama_sampler_free(chain);
    this.#attached.clear();
  }
}
