/** Loads a model into the library, and opens a context for it. */
import { must, type Ptr } from "../../../../native/ffi.ts";
import { isQuantized, TYPE } from "../../../../native/ggml/ggml.ts";
import { type Device, gainsMuchFromRepack, listGpus, loadModel, openContext } from "../../../../native/llama/load.ts";
import type { Llama } from "../../../../native/llama/symbols.ts";
import { weightPlaces } from "../../../../native/llama/weights.ts";
import { platform } from "../../../../native/platform/index.ts";
import { type Shapes, shapesOf, slotsFor, spareTokens, type WeightKinds } from "../batch_shapes.ts";
import { TokenKinds } from "../kinds.ts";
import type { SamplerNative } from "../sampling/sampler.ts";
import type { OpenMessage } from "../thread/messages.ts";
import { UnusableModel } from "../types.ts";
import { LibraryBackend, type LibraryOptions } from "./library.ts";
import { ThreadCount } from "./thread_count.ts";
import type { Results } from "./types.ts";

const CPU_BATCH = 512;
const GPU_BATCH = 2048;
const MICRO_BATCH = 512; // tokens of a prompt that are read at once; more costs memory and delays running sequences
const CPU_FILL = 8; // measured: cutting a batch of 8 costs as much as 10 more rows
const GPU_FILL = 32;
const PROGRESS_MS = 50;
const NO_TEXT =
  "The model has an encoder that this server cannot use. Decoders, and encoders such as BERT, can be served";

export function chooseDevices(llama: Llama, wanted: readonly number[]): Device[] {
  if (wanted.length === 0) return [];
  const gpus = listGpus(llama);
  return wanted.map((index) => {
    const device = gpus[index];
    if (!device) throw new Error(`there is no GPU ${index}: ${gpus.length} found. Run verk doctor for the reason`);
    return device;
  });
}

export function loadWeights(
  llama: Llama,
  open: OpenMessage,
  devices: readonly Device[],
  onProgress: (fraction: number) => void,
): Ptr {
  try {
    return loadModel(llama, {
      path: open.modelPath,
      devices: devices.map((d) => d.device),
      repack: devices.length === 0 && (!open.hurry || gainsMuchFromRepack(open.modelPath)),
      onProgress: open.wantsProgress ? inSteps(onProgress) : undefined,
    });
  } catch (error) {
    throw explainLoad(error);
  }
}

/** Loads the vocabulary alone: our kernels hold the weights. */
export function loadVocabulary(llama: Llama, path: string): Ptr {
  try {
    return loadModel(llama, { path, devices: [], repack: false, vocabOnly: true });
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

export function refuseOthers(llama: Llama, model: Ptr) {
  if (llama.llama_model_has_encoder(model) || !llama.llama_model_has_decoder(model)) {
    throw new UnusableModel(NO_TEXT);
  }
  if (llama.llama_model_is_diffusion(model))
    throw new UnusableModel("The model is a diffusion model. Decoders, and encoders such as BERT, can be served");
}

function inSteps(report: (fraction: number) => void): (fraction: number) => void {
  let last = performance.now();
  return (fraction) => {
    if (fraction < 1 && performance.now() - last < PROGRESS_MS) return;
    last = performance.now();
    report(fraction);
  };
}

export function samplerNative(llama: Llama, model: Ptr, contextLength: number): SamplerNative {
  const vocab = must(llama.llama_model_get_vocab(model), "llama_model_get_vocab");
  const vocabSize = llama.llama_vocab_n_tokens(vocab);
  return { llama, vocab, vocabSize, contextLength, kinds: new TokenKinds(llama, vocab) };
}

type Shared = Pick<LibraryOptions, "adapters" | "pace" | "pulse" | "prefixes"> & { native: SamplerNative };

/** Null: an answer may depend on what is decoded beside it. */
export function shapesFor(model: Ptr, open: OpenMessage): Shapes | null {
  const { batchInvariant, gpus, unified, steady } = open;
  if (batchInvariant === "off" || gpus.length > 0 || unified || steady) return null;
  const shapes = shapesOf(platform.steadyRows, kindsOf(model, open));
  return batchInvariant === "auto" && shapes.group > 1 ? null : shapes;
}

const MATRICES = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];

/** `others` also where matrices have other names. */
function kindsOf(model: Ptr, { dataDir }: OpenMessage): WeightKinds {
  const place = weightPlaces(dataDir, Number(model), { cuda: false });
  const kindOf = (name: string): WeightKinds => {
    const type = place(`${name}.weight`)?.type;
    if (type === undefined) return "others";
    return type === TYPE.Q8_0 ? "Q8_0" : isQuantized(type) ? "others" : "floats";
  };
  const kind = kindOf(place("output.weight") === null ? "token_embd" : "output");
  for (let layer = 0; place(`blk.${layer}.attn_norm.weight`) !== null; layer++)
    if (MATRICES.some((name) => kindOf(`blk.${layer}.${name}`) !== kind)) return "others";
  return kind;
}

export function openLibrary(model: Ptr, open: OpenMessage, shared: Shared, results: Results): LibraryBackend {
  const { contextLength, threads, unified } = open;
  const { llama } = shared.native;
  const shapes = shapesFor(model, open);
  const parallel = slotsFor(open.parallel, shapes);
  const batchTokens = open.gpus.length > 0 ? GPU_BATCH : CPU_BATCH;
  const context = openContext(llama, model, {
    contextTokens: (contextLength + spareTokens(shapes)) * parallel,
    batchTokens,
    microBatchTokens: open.steady ? batchTokens : MICRO_BATCH,
    sequences: parallel,
    threads,
    unified,
    embeddings: false,
    kvType: open.kvType,
  });
  const memory = llama.llama_get_memory(context) as Ptr | null;
  if (memory === null) {
    llama.llama_free(context);
    throw new UnusableModel(NO_TEXT); // it has no cache of keys and values
  }
  const options: LibraryOptions = {
    ...shared,
    native: { ...shared.native, context, memory },
    parallel,
    batchTokens,
    unified,
    deviceSampling: open.deviceSampling,
    steady: open.steady,
    shapes,
    threads: open.gpus.length > 0 || open.steady || threads < 2 ? null : new ThreadCount(threads),
    guesses: open.guesses,
    device: open.gpus.length > 0 ? "gpu" : "cpu",
    fillMost: open.gpus.length > 0 ? GPU_FILL : CPU_FILL,
    reuse: !llama.llama_model_is_recurrent(model) && !llama.llama_model_is_hybrid(model),
  };
  return new LibraryBackend(options, results);
}
