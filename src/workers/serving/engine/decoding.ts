/**
 * One open model on the decoding thread: what decodes it, and its shutdown. Our kernels decode where they can. They compute
 * no embeddings, and not every adapter: the first of these switches to the library, once running sequences have ended.
 */
import { availableParallelism } from "node:os";
import { errorText } from "../../../lib/error_text.ts";
import type { Ptr } from "../../../native/ffi.ts";
import type { Device } from "../../../native/llama/load.ts";
import { type Llama, openLlama } from "../../../native/llama/symbols.ts";
import { headerOf } from "../../decoder/header.ts";
import type { AdapterLoad } from "../../decoder/types.ts";
import { type AdapterFile, type AdapterPart, Adapters } from "./adapters.ts";
import { forgetAhead, vocabularyFor } from "./backends/ahead.ts";
import { type OpenedKernels, openKernels } from "./backends/choose.ts";
import { memoryMeter, readFacts, type ThreadFacts } from "./backends/facts.ts";
import { KernelBackend } from "./backends/kernels.ts";
import {
  chooseDevices,
  loadWeights,
  openLibrary,
  refuseOthers,
  samplerNative,
  shapesFor,
} from "./backends/open_library.ts";
import type { Results } from "./backends/types.ts";
import type { Embedder } from "./embedding/embedder.ts";
import { Encoding } from "./embedding/encoding.ts";
import { embeddingKindOf, openEmbedder } from "./embedding/open.ts";
import { Pace } from "./pace.ts";
import { PrefixFolder } from "./prefixes/folder.ts";
import type { SamplerNative } from "./sampling/sampler.ts";
import { Scheduler } from "./scheduler.ts";
import { FramePost } from "./thread/frame_post.ts";
import type { BringMessage, FromThread, OpenMessage, OpenModel, SubmitMessage } from "./thread/messages.ts";
import { Pulse } from "./thread/pulse.ts";

type Post = (message: FromThread) => void;
type Opened = { decoding: OpenModel; model: Ptr; facts: ThreadFacts };

const MOST_LANES = 14;
const MOST_SEQUENCES = 256; // limit of the library
const ATTACH_MS = 10_000; // a large adapter on a slow disk
const LOAD_MS = 300_000;
const REPORT_MS = 1_000;

export function openDecoding(wanted: OpenMessage, post: Post): Opened {
  let open = wanted;
  if (open.parallel > MOST_SEQUENCES) throw new Error(`parallel is ${open.parallel}; the maximum is ${MOST_SEQUENCES}`);
  const llama = openLlama(open.dataDir, { cuda: open.gpus.length > 0 });
  const devices = chooseDevices(llama, open.gpus);
  const used = memoryMeter(llama, devices);
  const wantRoom = (bytes: number) => post({ type: "wants_room", bytes });
  const further = { dataDir: open.dataDir, threads: laneThreads(open) };
  const prefixes = open.prefixes && new PrefixFolder(open.prefixes, wantRoom, further);
  const kernels = openKernels(open, prefixes);
  const isOwn = typeof kernels !== "string";
  const progress = (fraction: number) => post({ type: "progress", fraction });
  const model =
    (open.model as Ptr | null) ??
    (isOwn ? vocabularyFor(llama, open.modelPath) : loadWeights(llama, open, devices, progress));
  forgetAhead(llama);
  const isInvariant = isOwn ? kernels.isInvariant : shapesFor(model, open) !== null;
  const decodes = isOwn ? "Verk's own kernels decode" : `libllama decodes: ${kernels}`;
  const decoder = `${decodes}. ${isInvariant ? "No answer depends" : "Answers may depend"} on what is decoded beside it`;
  if (open.decoder !== "library" && open.gpus.length > 0) console.error(decoder);
  try {
    if (!isOwn) refuseOthers(llama, model);
    const isEncoder = !isOwn && embeddingKindOf(llama, model).isEncoder;
    if (isEncoder) open = withinPositions(llama, model, open);
    const decoding = isEncoder
      ? new Encoding({ llama, model, open, post })
      : new Decoding({ llama, model, open, post, devices, prefixes, kernels: isOwn ? kernels : null });
    const header = isOwn ? kernels.header : null;
    return { decoding, model, facts: readFacts(llama, model, open, { devices, memoryBytes: used(), decoder, header }) };
  } catch (error) {
    if (isOwn) kernels.close();
    if (open.model === null) llama.llama_model_free(model);
    throw error;
  }
}

/** A card takes blocks faster than one core opens them. */
const laneThreads = ({ gpus }: OpenMessage) =>
  gpus.length === 0 ? 0 : Math.max(1, Math.min(MOST_LANES, availableParallelism() - 2));

/** Encoders have a table of positions. The library ends the process for a position that is not in it. */
const withinPositions = (llama: Llama, model: Ptr, open: OpenMessage): OpenMessage => ({
  ...open,
  contextLength: Math.min(open.contextLength, llama.llama_model_n_ctx_train(model)),
});

type DecodingOptions = {
  llama: Llama;
  /** With `kernels`, the vocabulary alone. */
  model: Ptr;
  open: OpenMessage;
  post: Post;
  devices: readonly Device[];
  kernels: OpenedKernels | null;
  prefixes: PrefixFolder | null;
};

export class Decoding implements OpenModel {
  readonly #options: DecodingOptions;
  readonly #adapters: Adapters;
  readonly #scheduler: Scheduler;
  readonly #native: SamplerNative;
  readonly #pulse: Pulse;
  readonly #pace = new Pace();
  readonly #frames: FramePost;
  readonly #prefixes: PrefixFolder | null;
  #reportedAt = Number.NEGATIVE_INFINITY;
  #isKeeping = false;
  /** The library's model with weights; null while our kernels decode. */
  #weights: Ptr | null;
  #embedder: Embedder | null = null;
  #afterSwitch: (() => void)[] = [];
  /** Adapters on their way to our decoder; the first is copied. */
  readonly #loads: { name: string; load: AdapterLoad; done: (error?: unknown) => void }[] = [];
  /** The number of an adapter that has just been copied, by its name. */
  readonly #copied = new Map<string, number>();

  constructor(options: DecodingOptions) {
    const { llama, model, open, post, kernels, prefixes } = options;
    this.#options = options;
    this.#pulse = new Pulse(open.pulse);
    this.#frames = new FramePost(post, this.#pulse);
    this.#prefixes = prefixes;
    this.#weights = kernels ? null : model;
    this.#native = samplerNative(llama, model, open.contextLength);
    this.#adapters = new Adapters(
      llama,
      () => this.#weights!,
      (own) => this.#decoder?.detach(own),
    );
    const scheduling = {
      kinds: this.#native.kinds,
      adapters: this.#adapters,
      onFailed: (sequence: number, error: string) => post({ type: "failed", sequence, error }),
    };
    this.#scheduler = new Scheduler(scheduling, (results) =>
      kernels
        ? new KernelBackend({ ...kernels, native: this.#native, pulse: this.#pulse, prefixes }, results)
        : this.#openLibrary(model, results),
    );
  }

  get idle() {
    return this.#scheduler.idle && (this.#embedder?.idle ?? true) && this.#loads.length === 0 && !this.#isKeeping;
  }

  /** Null while the library decodes. */
  get #decoder() {
    return this.#weights === null ? (this.#options.kernels?.decoder ?? null) : null;
  }

  submit(message: SubmitMessage) {
    try {
      this.#scheduler.submit(message);
    } catch (error) {
      const because = errorText(error);
      message.seeds.forEach((_, i) => {
        this.#options.post({ type: "failed", sequence: message.sequence + i, error: because });
      });
    }
  }

  cancel(sequences: readonly number[]) {
    this.#scheduler.cancel(sequences);
    for (const id of sequences) this.#embedder?.cancel(id);
  }

  /** Runs `act` when the library decodes. `because` completes the sentence in the log. */
  withLibrary(because: string, act: () => void) {
    if (this.#weights !== null) return act();
    if (this.#afterSwitch.push(act) > 1) return;
    for (const { load, done } of this.#loads.splice(0)) {
      load.cancel();
      this.#decoder?.detach(load.adapter);
      this.#afterSwitch.push(done);
    }
    console.error(`The library takes over from Verk's own kernels when running requests have ended: ${because}`);
    this.#scheduler.replace((results) => this.#switch(results));
  }

  /**
   * Calls `done` when the adapter of the message can be attached: at once if the library decodes, otherwise when our
   * decoder has copied it beside the running sequences.
   */
  bring(message: BringMessage, done: (error?: unknown) => void) {
    const decoder = this.#afterSwitch.length > 0 ? null : this.#decoder;
    if (!decoder) return this.withLibrary("an adapter is attached", done);
    const parts = message.type === "attach" ? [message] : this.#adapters.filesOf(message.parts);
    const load = decoder.attach(parts.map(({ path, scale }) => ({ path, scale, header: headerOf(path) })));
    if (typeof load === "string") return this.withLibrary(`an adapter ${load}`, done);
    this.#loads.push({ name: message.name, load, done });
  }

  embed(id: number, prompts: readonly Int32Array[], adapter: string | null) {
    const { llama, open } = this.#options;
    const { contextLength, threads } = open;
    const model = this.#weights!;
    const speed = { pace: this.#pace, pulse: this.#pulse };
    this.#embedder ??= openEmbedder({ llama, model, contextLength, threads, ...speed }, this.#adapters);
    this.#embedder.submit(id, prompts, adapter);
  }

  attach(file: AdapterFile): number {
    const own = this.#takeCopied(file.name);
    if (own !== undefined) {
      this.#adapters.attachOwn(file, own);
      return 0;
    }
    this.#pulse.begin(ATTACH_MS);
    try {
      return this.#adapters.attach(file);
    } finally {
      this.#pulse.end(false);
    }
  }

  share(name: string, address: number) {
    this.#adapters.share(name, address as Ptr);
  }

  combine(name: string, parts: readonly AdapterPart[]) {
    this.#adapters.combine(name, parts, this.#takeCopied(name));
  }

  detach(name: string) {
    this.#adapters.detach(name);
  }

  clear() {
    this.#scheduler.clear();
  }

  /** Runs one step of everything that has work. Returns false when nothing is left. */
  turn(): boolean {
    this.#loadStep();
    if (!this.#scheduler.idle) this.#scheduler.step();
    this.#frames.offer(this.#scheduler);
    if (this.#weights !== null) for (const act of this.#afterSwitch.splice(0)) act();
    if (this.#embedder?.idle === false) this.#embedStep(this.#embedder);
    this.#isKeeping = this.#prefixes !== null && this.#scheduler.keep();
    this.#report(REPORT_MS);
    return !this.idle;
  }

  grant(bytes: number) {
    this.#prefixes?.grant(bytes);
    this.#isKeeping = bytes > 0;
  }

  /** Reports what was done with blocks, if nothing else comes or the last report is old. */
  #report(afterMs: number) {
    const now = performance.now();
    if (!this.idle && now - this.#reportedAt < afterMs) return;
    const counted = this.#prefixes?.takeCounts();
    if (!counted) return;
    this.#reportedAt = now;
    this.#options.post({ type: "prefixes", ...counted });
  }

  close() {
    const { llama, model, open } = this.#options;
    this.#scheduler.close();
    this.#report(0);
    this.#embedder?.free();
    if (this.#weights !== null && this.#weights !== model) llama.llama_model_free(this.#weights);
    if (open.model === null) llama.llama_model_free(model);
  }

  #openLibrary(model: Ptr, results: Results) {
    const shared = {
      native: this.#native,
      adapters: this.#adapters,
      pace: this.#pace,
      pulse: this.#pulse,
      prefixes: this.#prefixes,
    };
    return openLibrary(model, this.#options.open, shared, results);
  }

  /** Our kernels have been closed, so that their memory is free. */
  #switch(results: Results) {
    const { llama, open, devices } = this.#options;
    this.#pulse.begin(LOAD_MS);
    try {
      const weights = loadWeights(llama, { ...open, wantsProgress: false }, devices, () => {});
      const backend = this.#openLibrary(weights, results);
      this.#weights = weights;
      this.#adapters.moveToLibrary();
      return backend;
    } finally {
      this.#pulse.end(false);
    }
  }

  #takeCopied(name: string): number | undefined {
    const own = this.#copied.get(name);
    this.#copied.delete(name);
    return own;
  }

  /** Copies a piece of an adapter. */
  #loadStep() {
    const [first] = this.#loads;
    if (!first) return;
    const { name, load, done } = first;
    try {
      if (load.more()) return;
      this.#copied.set(name, load.adapter);
      this.#loads.shift();
      done();
    } catch (error) {
      this.#loads.shift();
      this.#decoder?.detach(load.adapter);
      done(error);
    }
  }

  #embedStep(embedder: Embedder) {
    const done = embedder.step();
    if (done) this.#options.post({ type: "answer", ...done });
  }
}
