/** One open model on the decoding thread: the weights, the decoders, and their shutdown. */
import { readFileSync } from "node:fs";
import { cstr, must, type Ptr, text } from "../../../native/ffi.ts";
import {
  type Device,
  freeBytes,
  gainsMuchFromRepack,
  listGpus,
  loadModel,
  openContext,
} from "../../../native/llama/load.ts";
import { type Llama, openLlama } from "../../../native/llama/symbols.ts";
import { pageBytes } from "../../../native/platform/index.ts";
import { Adapters } from "./adapters.ts";
import { Decoder } from "./scheduler.ts";
import { Embedder } from "./embedder.ts";
import { TokenKinds } from "./kinds.ts";
import { Pace } from "./pace.ts";
import type { FromThread, OpenMessage, SubmitMessage } from "./thread/messages.ts";
import { Pulse } from "./thread/pulse.ts";
import { type ModelFacts, UnusableModel } from "./types.ts";

type Post = (message: FromThread) => void;
type Opened = { decoding: Decoding; model: Ptr; facts: Omit<ModelFacts, "bosToken" | "eosToken"> };

const CPU_BATCH = 512;
const GPU_BATCH = 2048;
const MICRO_BATCH = 512; // tokens of a prompt that are read at once; more costs memory and delays running sequences
const CPU_FILL = 8; // measured: cutting a batch of 8 costs as much as 10 more rows
const GPU_FILL = 32;
const MOST_SEQUENCES = 256; // limit of the library
const PROGRESS_MS = 50;
const LONGEST_HOLD_MS = 16;
const NO_TEXT = "The model does not generate text. Only decoder models can be served";
const ATTACH_MS = 10_000; // a large adapter on a slow disk

export function openDecoding(open: OpenMessage, post: Post): Opened {
  if (open.parallel > MOST_SEQUENCES) throw new Error(`parallel is ${open.parallel}; the maximum is ${MOST_SEQUENCES}`);
  const llama = openLlama(open.dataDir, { cuda: open.gpus.length > 0 });
  const devices = chooseDevices(llama, open.gpus);
  const used = memoryMeter(llama, devices);
  const model = (open.model as Ptr | null) ?? load(llama, open, devices, post);
  try {
    refuseOthers(llama, model);
    const decoding = new Decoding({ llama, model, open, post });
    return { decoding, model, facts: readFacts(llama, model, open, { devices, memoryBytes: used() }) };
  } catch (error) {
    if (open.model === null) llama.llama_model_free(model);
    throw error;
  }
}

function load(llama: Llama, open: OpenMessage, devices: readonly Device[], post: Post): Ptr {
  try {
    return loadModel(llama, {
      path: open.modelPath,
      devices: devices.map((d) => d.device),
      repack: devices.length === 0 && (!open.hurry || gainsMuchFromRepack(open.modelPath)),
      onProgress: open.wantsProgress ? inSteps((fraction) => post({ type: "progress", fraction })) : undefined,
    });
  } catch (error) {
    throw explainLoad(error);
  }
}

const MACHINE = /alloc|memory|buffer|cuda|device|failed to open|mmap|mlock|read error|input\/output|no reason given/i;
const INTERNAL = /(?:\b[a-z]+_\w+: |\berror loading model: )+/; // names of native functions

/** Errors of the machine may pass. Every other reason lies in the file: no retry helps. */
function explainLoad(error: unknown): unknown {
  if (!(error instanceof Error) || MACHINE.test(error.message)) return error;
  return new UnusableModel(error.message.replace(INTERNAL, ""), { cause: error });
}

function chooseDevices(llama: Llama, wanted: readonly number[]): Device[] {
  if (wanted.length === 0) return [];
  const found = listGpus(llama);
  return wanted.map((index) => {
    const device = found[index];
    if (!device) throw new Error(`there is no GPU ${index}: ${found.length} found. Run verk doctor for the reason`);
    return device;
  });
}

function refuseOthers(llama: Llama, model: Ptr) {
  if (llama.llama_model_has_encoder(model) || !llama.llama_model_has_decoder(model)) {
    throw new UnusableModel(NO_TEXT);
  }
  if (llama.llama_model_is_diffusion(model))
    throw new UnusableModel("The model is a diffusion model. Only decoder models can be served");
}

/** Starts a measurement. The returned function gives the bytes taken since. */
function memoryMeter(llama: Llama, devices: readonly Device[]): () => number {
  const resident = () => Number(readFileSync("/proc/self/statm", "latin1").split(" ")[1]) * pageBytes();
  const free = () => devices.reduce((sum, { device }) => sum + freeBytes(llama, device), 0);
  const before = devices.length > 0 ? free() : resident();
  return () => Math.max(0, devices.length > 0 ? before - free() : resident() - before);
}

function inSteps(report: (fraction: number) => void): (fraction: number) => void {
  let last = performance.now();
  return (fraction) => {
    if (fraction < 1 && performance.now() - last < PROGRESS_MS) return;
    last = performance.now();
    report(fraction);
  };
}

type Measured = { devices: readonly Device[]; memoryBytes: number };

function readFacts(llama: Llama, model: Ptr, open: OpenMessage, { devices, memoryBytes }: Measured): Opened["facts"] {
  const vocab = must(llama.llama_model_get_vocab(model), "llama_model_get_vocab");
  const room = Buffer.alloc(256);
  const length = llama.llama_model_meta_val_str(model, cstr("general.architecture"), room, room.length);
  const template = (name: string | null) =>
    text(llama.llama_model_chat_template(model, name === null ? null : cstr(name))) || null;
  return {
    architecture: room.toString("utf8", 0, Math.max(0, length)),
    contextLength: open.contextLength,
    trainedContextLength: llama.llama_model_n_ctx_train(model),
    parallel: open.parallel,
    vocabSize: llama.llama_vocab_n_tokens(vocab),
    embeddingSize: llama.llama_model_n_embd_out(model),
    parameters: Number(llama.llama_model_n_params(model)),
    weightBytes: Number(llama.llama_model_size(model)),
    memoryBytes,
    addsBos: llama.llama_vocab_get_add_bos(vocab),
    chatTemplate: template(null),
    toolTemplate: template("tool_use"),
    device: devices.length > 0 ? devices.map((d) => d.description).join(", ") : "CPU",
  };
}

type DecodingOptions = { llama: Llama; model: Ptr; open: OpenMessage; post: Post };

export class Decoding {
  readonly #options: DecodingOptions;
  readonly #adapters: Adapters;
  readonly #decoder: Decoder;
  readonly #embedder: Embedder;
  readonly #pulse: Pulse;
  #postMs = 0;
  #postAt = 0;

  constructor(options: DecodingOptions) {
    const { llama, model, open, post } = options;
    const { contextLength, parallel, threads, unified } = open;
    const vocab = must(llama.llama_model_get_vocab(model), "llama_model_get_vocab");
    const batchTokens = open.gpus.length > 0 ? GPU_BATCH : CPU_BATCH;
    this.#options = options;
    this.#pulse = new Pulse(open.pulse);
    const speed = { pace: new Pace(), pulse: this.#pulse };
    const context = openContext(llama, model, {
      contextTokens: contextLength * parallel,
      batchTokens,
      microBatchTokens: open.steady ? batchTokens : MICRO_BATCH,
      sequences: parallel,
      threads,
      unified,
      embeddings: false,
    });
    const memory = llama.llama_get_memory(context) as Ptr | null;
    if (memory === null) {
      llama.llama_free(context);
      throw new UnusableModel(NO_TEXT); // an encoder: it has no cache of keys and values
    }
    this.#adapters = new Adapters(llama, model);
    this.#decoder = new Decoder({
      native: {
        llama,
        vocab,
        vocabSize: llama.llama_vocab_n_tokens(vocab),
        contextLength,
        kinds: new TokenKinds(llama, vocab),
        context,
        memory,
      },
      adapters: this.#adapters,
      ...speed,
      parallel,
      batchTokens,
      unified,
      deviceSampling: open.deviceSampling,
      steady: open.steady,
      fillMost: open.gpus.length > 0 ? GPU_FILL : CPU_FILL,
      reuse: !llama.llama_model_is_recurrent(model) && !llama.llama_model_is_hybrid(model),
      onFailed: (sequence, error) => post({ type: "failed", sequence, error }),
    });
    const size = llama.llama_model_n_embd_out(model);
    const adapters = this.#adapters;
    this.#embedder = new Embedder({ llama, model, contextLength, threads, size, adapters, ...speed });
  }

  get idle() {
    return this.#decoder.idle && this.#embedder.idle;
  }

  submit(message: SubmitMessage) {
    try {
      this.#decoder.submit(message);
    } catch (error) {
      const because = error instanceof Error ? error.message : String(error);
      message.seeds.forEach((_, i) => {
        this.#options.post({ type: "failed", sequence: message.sequence + i, error: because });
      });
    }
  }

  cancel(sequences: readonly number[]) {
    this.#decoder.cancel(sequences);
    for (const id of sequences) this.#embedder.cancel(id);
  }

  embed(id: number, prompts: readonly Int32Array[], adapter: string | null) {
    this.#embedder.submit(id, prompts, adapter);
  }

  attach(name: string, path: string, scale: number): number {
    this.#pulse.begin(ATTACH_MS);
    try {
      return this.#adapters.attach(name, path, scale);
    } finally {
      this.#pulse.end(false);
    }
  }

  share(name: string, address: number) {
    this.#adapters.share(name, address as Ptr);
  }

  detach(name: string) {
    this.#adapters.detach(name);
  }

  clear() {
    this.#decoder.clear();
  }

  /** Runs one step of everything that has work. Returns false when nothing is left. */
  turn(): boolean {
    if (!this.#decoder.idle) this.#decoder.step();
    const { idle } = this.#decoder;
    const frame = this.#decoder.take(idle || performance.now() >= this.#postAt);
    if (frame) this.#postFrame(frame);
    if (!this.#embedder.idle) this.#embedStep();
    return !this.idle;
  }

  /**
   * Waking the main thread costs 5 µs or, on a virtual machine, 200. Ordinary tokens wait so that this cost stays near
   * 1 %.
   */
  #postFrame(frame: Float64Array) {
    const before = performance.now();
    this.#options.post(frame);
    const now = performance.now();
    this.#postMs = this.#postMs === 0 ? now - before : 0.9 * this.#postMs + 0.1 * (now - before);
    this.#postAt = now + Math.min(LONGEST_HOLD_MS, 100 * this.#postMs);
  }

  #embedStep() {
    try {
      const done = this.#embedder.step();
      if (done) this.#options.post({ type: "answer", ...done });
    } catch (error) {
      const id = this.#embedder.drop();
      this.#options.post({ type: "answer", id, error: error instanceof Error ? error.message : String(error) });
    }
  }

  close() {
    const { llama, model, open } = this.#options;
    this.#decoder.close();
    this.#embedder.free();
    if (open.model === null) llama.llama_model_free(model);
  }
}
