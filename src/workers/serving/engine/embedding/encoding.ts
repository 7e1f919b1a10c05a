/** An open encoder on the decoding thread: a model without a cache, which computes embeddings or scores and no text. */
import type { Ptr } from "../../../../native/ffi.ts";
import type { Llama } from "../../../../native/llama/symbols.ts";
import { type AdapterFile, type AdapterPart, Adapters } from "../adapters.ts";
import { Pace } from "../pace.ts";
import type { BringMessage, FromThread, OpenMessage, OpenModel, SubmitMessage } from "../thread/messages.ts";
import { Pulse } from "../thread/pulse.ts";
import type { Embedder } from "./embedder.ts";
import { openEmbedder } from "./open.ts";

type Options = { llama: Llama; model: Ptr; open: OpenMessage; post: (message: FromThread) => void };

export class Encoding implements OpenModel {
  readonly #options: Options;
  readonly #adapters: Adapters;
  readonly #embedder: Embedder;

  constructor(options: Options) {
    const { llama, model, open } = options;
    const { contextLength, threads } = open;
    this.#options = options;
    this.#adapters = new Adapters(llama, () => model);
    const speed = { pace: new Pace(), pulse: new Pulse(open.pulse) };
    this.#embedder = openEmbedder({ llama, model, contextLength, threads, ...speed }, this.#adapters);
    this.#embedder.open(); // its memory counts, and a model that does not fit fails now
  }

  get idle() {
    return this.#embedder.idle;
  }

  /** The HTTP interface refuses such requests before. */
  submit({ seeds, sequence }: SubmitMessage) {
    seeds.forEach((_, i) => {
      this.#options.post({ type: "failed", sequence: sequence + i, error: "the model generates no text" });
    });
  }

  cancel(sequences: readonly number[]) {
    for (const id of sequences) this.#embedder.cancel(id);
  }

  withLibrary(_because: string, act: () => void) {
    act();
  }

  bring(_message: BringMessage, done: () => void) {
    done();
  }

  embed(id: number, prompts: readonly Int32Array[], adapter: string | null) {
    this.#embedder.submit(id, prompts, adapter);
  }

  attach(file: AdapterFile): number {
    return this.#adapters.attach(file);
  }

  grant() {}

  share(name: string, address: number) {
    this.#adapters.share(name, address as Ptr);
  }

  combine(name: string, parts: readonly AdapterPart[]) {
    this.#adapters.combine(name, parts);
  }

  detach(name: string) {
    this.#adapters.detach(name);
  }

  clear() {}

  turn(): boolean {
    const done = this.#embedder.step();
    if (done) this.#options.post({ type: "answer", ...done });
    return !this.idle;
  }

  close() {
    const { llama, model, open } = this.#options;
    this.#embedder.free();
    if (open.model === null) llama.llama_model_free(model);
  }
}
