/**
 * The engine as the rest of the program sees it: one model in this process, many sequences decoded together.
 * The chat routes and the trainer's rollouts use the same interface.
 */

export type Sampling = {
  /** 0 = greedy: the most likely token, always. */
  temperature: number;
  topP: number;
  /** 0 = off. */
  topK: number;
  minP: number;
  frequencyPenalty: number;
  presencePenalty: number;
  /** The same seed, prompt and settings give the same tokens. Absent: random. Sample i of a request draws with seed + i. */
  seed?: number;
  logitBias: readonly (readonly [token: number, bias: number])[];
};

export type Generation = {
  prompt: Int32Array;
  maxTokens: number;
  sampling: Sampling;
  /** How many answers to one prompt; they share its keys and values. */
  samples: number;
  /** None of these ever appears in the text, nor does a part of one at the end. */
  stop: readonly string[];
  /** Undefined = none; else this many alternatives beside each sampled token (0..20). */
  topLogprobs?: number;
  /** Log-probabilities are of the logits divided by this. Absent: 1, the model as it is. */
  logprobTemperature?: number;
  /** GBNF with the rule `root`: the text is always a sentence of it. */
  grammar?: string;
  /** Let end-of-generation tokens be ordinary: for benchmarks. */
  ignoreEos?: boolean;
  /** Name of an attached adapter; absent = the model as it is. */
  adapter?: string;
  /** Rollouts want the ids. */
  wantTokens?: boolean;
  /** A proof that it decodes: the last token of some idle cache again, so that nobody's cache is lost to it. */
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

/** What became of one sample since the last delta. Whole characters only; nothing that may still become a stop string. */
export type Delta = {
  sample: number;
  text: string;
  tokens?: Int32Array;
  logprobs?: readonly TokenLogprob[];
  finish?: Finish;
  /** With `finish`: tokens generated for this sample, the end token not counted. */
  completionTokens?: number;
};

export type Run = AsyncIterable<readonly Delta[]> & {
  /** Known when the prompt has been read: how many of its tokens were already in the cache. */
  readonly cachedTokens: Promise<number>;
};

export type ModelFacts = {
  architecture: string;
  /** Of one sequence in this engine. */
  contextLength: number;
  trainedContextLength: number;
  parallel: number;
  vocabSize: number;
  embeddingSize: number;
  parameters: number;
  weightBytes: number;
  /** What the engine holds on its device, as measured. */
  memoryBytes: number;
  bosToken: string;
  eosToken: string;
  addsBos: boolean;
  chatTemplate: string | null;
  toolTemplate: string | null;
  device: string;
};

export type EngineStats = {
  active: number;
  waiting: number;
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
  decodeCalls: number;
  /** Since the last successful decode of anything; Infinity before the first. */
  idleMs: number;
};

export type EngineOptions = {
  /** Where native libraries are extracted to. */
  dataDir: string;
  modelPath: string;
  contextLength: number;
  parallel: number;
  threads: number;
  /** Indices of the GPUs to use; empty = CPU. */
  gpus: readonly number[];
  /** Keys and values in one pool shared by all sequences: for groups that share a long prompt. */
  unified?: boolean;
  /** Tokens are drawn on the device where the request allows it. Absent: with a GPU. */
  deviceSampling?: boolean;
  /** Rather loaded soon than fast: weights that gain little from it are not rearranged. */
  hurry?: boolean;
  /** The same requests after `clear` are computed in the same batches, whatever the clock says. */
  steady?: boolean;
  onProgress?: (fraction: number) => void;
};

export type Engine = {
  readonly facts: ModelFacts;
  /** The address of the loaded model, the same for every thread of this process. */
  readonly model: number;
  /** `special`: text such as <|im_end|> becomes the control token. */
  tokenize: (text: string, options: { addBos: boolean; special: boolean }) => Int32Array;
  detokenize: (tokens: Int32Array) => string;
  /** Aborting frees the slot before the next decode. Throws ContextOverflow before anything runs. */
  generate: (generation: Generation, signal?: AbortSignal) => Run;
  /** Mean of the last hidden states, length 1; in the order given. `adapter`: as in a generation. */
  embed: (prompts: readonly Int32Array[], signal?: AbortSignal, adapter?: string) => Promise<Float32Array[]>;
  /** Loads (or replaces, once no sequence uses it) an adapter under a name; returns its address in this process. */
  attach: (name: string, path: string, scale?: number) => Promise<number>;
  /** One that another engine over the same weights has attached, and that it must outlast. */
  share: (name: string, address: number) => Promise<void>;
  detach: (name: string) => Promise<void>;
  /** Forgets what the cache holds. Only while nothing runs. */
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
      `The prompt has ${promptTokens} tokens and the context holds ${contextLength}: shorten it, or deploy with a larger context_length`,
    );
    this.name = "ContextOverflow";
  }
}

/** The grammar does not parse. */
export class BadGrammar extends Error {
  override name = "BadGrammar";
}
