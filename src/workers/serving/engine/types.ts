/**
 * The engine's interface: one model in this process, many sequences decoded together. The chat routes and the trainer's
 * rollouts both use it.
 */

import type { KvType } from "../../../lib/gguf/memory.ts";
import type { Pooling } from "../../../lib/gguf/pooling.ts";
import type { AdapterPart } from "./adapters.ts";
import type { PrefixOptions } from "./prefixes/folder.ts";
import type { PrefixMessage } from "./thread/messages.ts";
import type { RunningCall } from "./thread/pulse.ts";

export type Sampling = {
  /** 0 = greedy: always the most likely token. */
  temperature: number;
  topP: number;
  /** 0 = off. */
  topK: number;
  minP: number;
  frequencyPenalty: number;
  presencePenalty: number;
  /**
   * The same seed, prompt and settings give the same tokens. If absent, the seed is random. Sample i draws with seed +
   * i.
   */
  seed?: number;
  logitBias: readonly (readonly [token: number, bias: number])[];
};

/**
 * Rows of an image in a prompt. Their places in the prompt hold numbers below 0, made of a hash of the image: a prompt with
 * another image at that place does not begin alike.
 */
export type PromptRows = {
  /** Place of the first row in the prompt. */
  at: number;
  rows: number;
  /** Row after row, each as long as an embedding of the model. */
  embeddings: Float32Array;
  /** Every row sees all others, also later ones. */
  together: boolean;
};

export type Generation = {
  /** Tokens; numbers below 0 are rows of `images`. The last one is a token. */
  prompt: Int32Array;
  images?: readonly PromptRows[];
  maxTokens: number;
  sampling: Sampling;
  /** The number of answers to one prompt; they share its keys and values. */
  samples: number;
  /** None of these strings appears in the text, nor a part of one at the end. */
  stop: readonly string[];
  /** Undefined = none. Otherwise this many alternatives for each sampled token (0..20). */
  topLogprobs?: number;
  /** Log-probabilities are computed from the logits divided by this. The default is 1: the model as it is. */
  logprobTemperature?: number;
  /** GBNF with the rule `root`. The text always satisfies it. */
  grammar?: string;
  /** Treat end-of-generation tokens as ordinary ones; for benchmarks. */
  ignoreEos?: boolean;
  /** Name of an attached adapter. If absent, the base model is used. */
  adapter?: string;
  /** Read the whole prompt, also where the cache has its start. */
  fresh?: boolean;
  /** Include the token ids; rollouts need them. */
  wantTokens?: boolean;
  /** The rank of its priority (lib/chat/priority.ts): 0 goes first. Default: that of normal. */
  rank?: number;
  /** Proves that the model decodes: decodes the last token of an idle cache again, so that no cache is lost. */
  probe?: boolean;
};

export type TokenLogprob = {
  token: number;
  /** The bytes of the piece: a token may hold a part of a character. */
  bytes: Uint8Array;
  logprob: number;
  top: readonly { token: number; bytes: Uint8Array; logprob: number }[];
};

export type Finish = "stop" | "length" | "cancelled";

/**
 * The progress of one sample since the last delta. It holds whole characters only, and nothing that may still become a
 * stop string.
 */
export type Delta = {
  sample: number;
  text: string;
  tokens?: Int32Array;
  logprobs?: readonly TokenLogprob[];
  finish?: Finish;
  /** Present with `finish: "stop"`: the stop string that ended the text. */
  stop?: string;
  /** Present with `finish`: tokens generated for this sample, without the end token. */
  completionTokens?: number;
};

export type Run = AsyncIterable<readonly Delta[]> & {
  /** Resolves when the prompt has been read: how many of its tokens were already in the cache. */
  readonly cachedTokens: Promise<number>;
};

/** Tokens before the first text, after each text, and between both; -1 = none. `template` replaces them. */
export type PairTokens = { template: string | null; bos: number; eos: number; sep: number };

export type ModelFacts = {
  architecture: string;
  /** The model computes embeddings or scores, but no text. */
  isEncoder: boolean;
  /** The file names a pooling: the model is made for embeddings or scores. */
  hasPooling: boolean;
  /** `rank`: `embed` gives scores of pairs, and no embeddings. */
  pooling: Exclude<Pooling, "none">;
  /** The way in which two texts become one prompt. */
  pairs: PairTokens;
  /** The context of one sequence in this engine. */
  contextLength: number;
  trainedContextLength: number;
  parallel: number;
  vocabSize: number;
  embeddingSize: number;
  parameters: number;
  weightBytes: number;
  /** Measured memory of the engine on its device. */
  memoryBytes: number;
  bosToken: string;
  eosToken: string;
  addsBos: boolean;
  /** Tokens before the text, before the suffix, and before the answer that fills a gap. Null: the model has none. */
  gap: { prefix: number; suffix: number; middle: number } | null;
  chatTemplate: string | null;
  toolTemplate: string | null;
  device: string;
  /** One sentence: what decodes, and why it is not our own kernels. */
  decoder: string;
};

export type EngineStats = {
  active: number;
  waiting: number;
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
  decodeCalls: number;
  /** Time since the last successful decode of any request; Infinity before the first. */
  idleMs: number;
  /** Decode calls that have succeeded. Unlike `decodeCalls` it is current while a call blocks the decoding thread. */
  callsDone: number;
  running: RunningCall | null;
};

/** `own`: our kernels, or an error that says why not. `auto`: our kernels where they can decode the model. */
export type DecoderChoice = "auto" | "library" | "own";

/** If an answer may depend on what is decoded beside it. `on`: never, whatever that costs. `auto`: not where that costs little. */
export type InvarianceChoice = "auto" | "on" | "off";

/** If the GPU may hold a copy in BF16 of quantized weights. `auto`: where memory allows it and many sequences may decode. */
export type RepackChoice = "auto" | "off";

export type EngineOptions = {
  /** The directory for extracted native libraries. */
  dataDir: string;
  modelPath: string;
  contextLength: number;
  parallel: number;
  threads: number;
  /** Indices of the GPUs to use; empty = CPU. */
  gpus: readonly number[];
  /** Keys and values in one pool shared by all sequences: for groups that share a long prompt. */
  unified?: boolean;
  /** Draw tokens on the device where the request allows it. Default: true with a GPU. */
  deviceSampling?: boolean;
  /** Guess the next tokens of a lone sequence from its text; on the CPU. Default: true. */
  guesses?: boolean;
  /** Prefer a short load over speed: weights that gain little are not rearranged. */
  hurry?: boolean;
  /** The same requests after `clear` are computed in the same batches, independent of the clock. */
  steady?: boolean;
  /** Default: library. */
  decoder?: DecoderChoice;
  /** Default: off. */
  batchInvariant?: InvarianceChoice;
  /** Default: off. */
  repack?: RepackChoice;
  /** Numbers of keys and values. Default: f16. */
  kvType?: KvType;
  /** Prompts may have rows of images: the library decodes. */
  images?: boolean;
  /** For tests (thread/fault.ts). */
  fault?: string;
  onProgress?: (fraction: number) => void;
  /** Keep the beginnings of prompts on the disk, too. */
  prefixes?: PrefixOptions;
  /** Called when blocks need room, or were read or written. */
  onPrefixes?: (message: PrefixMessage) => void;
};

export type Engine = {
  readonly facts: ModelFacts;
  /** The address of the loaded model, the same for every thread of this process. */
  readonly model: number;
  /** `special`: text such as <|im_end|> becomes a control token. */
  tokenize: (text: string, options: { addBos: boolean; special: boolean }) => Int32Array;
  detokenize: (tokens: Int32Array) => string;
  /** Aborting frees the slot before the next decode. Throws ContextOverflow before anything runs. */
  generate: (generation: Generation, signal?: AbortSignal) => Run;
  /** Embeddings of length 1, or scores, by `facts.pooling`, in the order given. `adapter` means the same as in a generation. */
  embed: (prompts: readonly Int32Array[], signal?: AbortSignal, adapter?: string) => Promise<Float32Array[]>;
  /**
   * Loads an adapter under a name and returns its address in this process. It replaces an earlier one once no sequence
   * uses that.
   */
  attach: (name: string, path: string, how?: { scale?: number; identity?: string }) => Promise<number>;
  /** Answers a message that asks for room for blocks. 0: there is none. */
  grantRoom: (bytes: number) => void;
  /** Shares an adapter that another engine over the same weights attached. That engine must outlive this one. */
  share: (name: string, address: number) => Promise<void>;
  /** Gives attached adapters that are applied together a name. */
  combine: (name: string, parts: readonly AdapterPart[]) => Promise<void>;
  detach: (name: string) => Promise<void>;
  /** Forgets the content of the cache. Allowed only while nothing runs. */
  clear: () => Promise<void>;
  stats: () => EngineStats;
  close: () => Promise<void>;
};

export class ContextOverflow extends Error {
  constructor(
    readonly promptTokens: number,
    readonly maxTokens: number,
    readonly contextLength: number,
  ) {
    super(
      `The prompt has ${promptTokens} tokens, but the context holds ${contextLength}. Shorten the prompt, or deploy with a larger context_length`,
    );
    this.name = "ContextOverflow";
  }
}

/** The file is no model that can be served here. No retry helps. */
export class UnusableModel extends Error {
  override name = "UnusableModel";
}

/** The grammar does not parse. */
export class BadGrammar extends Error {
  override name = "BadGrammar";
}
