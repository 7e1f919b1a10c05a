/**
 * Samples drawn by our own kernels on a GPU. The decoder has the only copy of the merged weights; matrices without an
 * adapter are the trainer's. The samples of a generation depend on the weights, the requests and the sampling alone. One
 * sample also depends on the number of its batch's rows: cuBLAS multiplies for many.
 */
import { PROMPT_ROWS } from "../../../lib/training/memory_rollouts.ts";
import { type Device, PAGE } from "../../../native/cuda/decode/kernels.ts";
import { openDecodeDevice } from "../../../native/cuda/decode/open.ts";
import { OutOfMemory, TYPE } from "../../../native/ggml/ggml.ts";
import { listGpus } from "../../../native/llama/load.ts";
import { openLlama } from "../../../native/llama/symbols.ts";
import type { WeightPlaces } from "../../../native/llama/weights.ts";
import { openDecoder } from "../../decoder/decoder.ts";
import { type DecoderModel, loadModel } from "../../decoder/model.ts";
import { WIDE_ROLLOUTS } from "../../decoder/plan.ts";
import { type RolledSample, rolling } from "../../decoder/roll.ts";
import type { Decoder } from "../../decoder/types.ts";
import { openTokenizer, type Tokenizer } from "../data/tokenizer.ts";
import type { ModelFile } from "../engine/weights.ts";
import { readModelFile } from "../model_file.ts";
import { reasonNotDrawn } from "./drawn_families.ts";
import { inMemory, inTurn, mustFit } from "./shared.ts";
import type { Roller, RollerOptions, Rollout, RolloutRequest } from "./types.ts";

const STEPS_PER_TURN = 16; // the event loop runs in between

/** Returns null if the kernels cannot decode this model here: the serving engine draws then. */
export async function openDecoderRoller(options: RollerOptions): Promise<Roller | null> {
  const { dataDir, modelPath, gpus, kernels = true } = options;
  const file = await readModelFile(modelPath);
  if (!kernels || reasonNotDrawn(file.header) !== null) return null;
  const device = options.device ?? openDecodeDevice(dataDir, gpus);
  if (typeof device === "string") return null;
  const tokenizer = openTokenizer(dataDir, modelPath, gpus.length > 0);
  try {
    return new DecoderRoller(options, device, tokenizer, file);
  } catch (error) {
    tokenizer.close();
    if (!options.device) device.close();
    throw error instanceof OutOfMemory ? new OutOfMemory(lacking(options), { cause: error }) : error;
  }
}

const lacking = ({ parallel, contextLength }: RollerOptions) =>
  `The GPU has no memory for the model that samples, with ${parallel} completions of ${contextLength} tokens at once. Lower generation_batch_size or max_completion_length`;

class DecoderRoller implements Roller {
  readonly #options: RollerOptions;
  readonly #device: Device;
  readonly #tokenizer: Tokenizer;
  readonly #name: string;
  readonly #inTurn = inTurn();
  #model!: DecoderModel;
  #decoder!: Decoder;

  constructor(options: RollerOptions, device: Device, tokenizer: Tokenizer, file: ModelFile) {
    this.#options = options;
    this.#device = device;
    this.#tokenizer = tokenizer;
    this.#name = nameOf(options);
    this.#open(file, options.frozen);
    options.onProgress?.(1);
  }

  get isExact() {
    return this.#options.exact ?? false;
  }
  get facts() {
    const { contextLength, parallel } = this.#options;
    return { contextLength, parallel, device: this.#name, memoryBytes: this.#model.bytes + this.#decoder.bytes };
  }
  get tokenize() {
    return this.#tokenizer.tokenize;
  }
  get detokenize() {
    return this.#tokenizer.detokenize;
  }

  roll: Roller["roll"] = (requests, sampling, signal) =>
    this.#inTurn(async () => {
      signal?.throwIfAborted();
      const { contextLength } = this.#options;
      mustFit(requests, sampling, contextLength);
      const fitting = requests.map((request) => {
        const room = contextLength - request.prompt.length + 1;
        return { ...request, maxTokens: Math.min(request.maxTokens ?? sampling.maxTokens, room) };
      });
      try {
        const rolled = await this.#roll(fitting, sampling, signal);
        return rolled.map((group) => group.map((sample) => this.#read(sample)));
      } finally {
        this.#decoder.clear();
      }
    });

  /** Adapters are merged: a separate one would be another two products for every matrix and token. */
  sync: Roller["sync"] = async (adapter) => {
    if (adapter !== null) throw new Error("The kernels of decoding have no separate adapters: merge it");
  };

  merge: Roller["merge"] = (write) =>
    this.#inTurn(async () => {
      this.#device.wait(); // a step that was queued ahead may still read the weights
      const written = write(this.#places);
      this.#device.wait();
      return written;
    });

  reload: Roller["reload"] = (write) =>
    this.#inTurn(() =>
      inMemory(new Uint8Array(0), async (path) => {
        await write(path);
        const file = await readModelFile(path);
        this.#free(); // a device may have room for only one
        this.#open(file, () => null);
      }),
    );

  close = () =>
    this.#inTurn(async () => {
      this.#free();
      this.#tokenizer.close();
      if (!this.#options.device) this.#device.close();
    });

  readonly #places: WeightPlaces = (name) => {
    const weight = this.#model.matrices.get(name);
    if (weight?.format !== "bf16") return null;
    return { address: weight.at, type: TYPE.BF16, columns: weight.columns, rows: weight.rows, onDevice: true };
  };

  #open(file: ModelFile, frozen: RollerOptions["frozen"]) {
    const { contextLength, parallel, wide = WIDE_ROLLOUTS, exact = false } = this.#options;
    const pages = parallel * Math.ceil(contextLength / PAGE);
    const promptTokens = Math.min(PROMPT_ROWS, parallel * contextLength);
    this.#model = loadModel(this.#device, file, contextLength, frozen);
    try {
      const size = { slots: parallel, contextLength, pages, promptTokens, ahead: true, wide, exact };
      this.#decoder = openDecoder(this.#device, this.#model, size);
    } catch (error) {
      this.#model.free();
      throw error;
    }
  }

  #free() {
    this.#decoder.close();
    this.#model.free();
  }

  async #roll(requests: readonly RolloutRequest[], sampling: Parameters<Roller["roll"]>[1], signal?: AbortSignal) {
    const steps = rolling(this.#decoder, requests, sampling, this.#tokenizer.isEnd);
    try {
      for (let count = 1; ; count++) {
        const { done, value } = steps.next();
        if (done) return value;
        if (count % STEPS_PER_TURN !== 0) continue;
        await new Promise<void>((resolve) => setImmediate(resolve));
        signal?.throwIfAborted();
      }
    } finally {
      steps.return([]); // releases all sequences if the loop ended early
    }
  }

  #read({ tokens, logps, truncated }: RolledSample): Rollout {
    const text = this.#tokenizer.detokenize(truncated ? tokens : tokens.subarray(0, -1));
    return { tokens, logps, text, truncated };
  }
}

function nameOf({ dataDir, gpus }: RollerOptions): string {
  const gpu = gpus[0];
  if (gpu === undefined) return "CPU";
  return listGpus(openLlama(dataDir, { cuda: true }))[gpu]?.description ?? `GPU ${gpu}`;
}
