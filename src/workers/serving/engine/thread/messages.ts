/**
 * Messages between the engine's main thread and its decoding thread. The results of a step come as a frame (frame.ts).
 */

import type { KvType } from "../../../../lib/gguf/memory.ts";
import type { PrefixCounts } from "../../../protocol.ts";
import type { AdapterFile, AdapterPart } from "../adapters.ts";
import type { PrefixOptions } from "../prefixes/folder.ts";
import type { DecoderChoice, InvarianceChoice, ModelFacts, PromptRows, RepackChoice, Sampling } from "../types.ts";

export type OpenMessage = {
  type: "open";
  dataDir: string;
  modelPath: string;
  /** The address of a model that another engine of this process loaded. Null: load it. */
  model: number | null;
  contextLength: number;
  parallel: number;
  threads: number;
  gpus: readonly number[];
  unified: boolean;
  deviceSampling: boolean;
  guesses: boolean;
  hurry: boolean;
  steady: boolean;
  decoder: DecoderChoice;
  batchInvariant: InvarianceChoice;
  repack: RepackChoice;
  kvType: KvType;
  images: boolean;
  /** Null: prompts stay in memory only. */
  prefixes: PrefixOptions | null;
  wantsProgress: boolean;
  /** The memory of a `Pulse`. */
  pulse: SharedArrayBuffer;
  /** For tests (fault.ts). */
  fault: string;
};

export type SubmitMessage = {
  type: "submit";
  /** Sample i has the id `sequence + i` and draws with `seeds[i]`. */
  sequence: number;
  prompt: Int32Array;
  images: readonly PromptRows[];
  seeds: readonly number[];
  maxTokens: number;
  sampling: Sampling;
  /** -1 = none. */
  topLogprobs: number;
  logprobTemperature: number;
  grammar: string | null;
  ignoreEos: boolean;
  adapter: string | null;
  /** Read the whole prompt, also where the cache has its start. */
  fresh: boolean;
  /** The main thread searches for stop strings: tokens decoded after a match are wasted. */
  watched: boolean;
  /** 0 goes first. */
  rank: number;
  /** Use `prompt` only if no cache is idle. */
  probe: boolean;
};

/** A question has one answer, which names its id. */
export type Question =
  | { type: "embed"; id: number; prompts: readonly Int32Array[]; adapter: string | null }
  | { type: "attach"; id: number; name: string; path: string; scale: number; identity: string | null }
  | { type: "share"; id: number; name: string; address: number }
  | { type: "combine"; id: number; name: string; parts: readonly AdapterPart[] }
  | { type: "detach"; id: number; name: string }
  | { type: "clear"; id: number }
  | { type: "close"; id: number };

/** Questions that bring an adapter. */
export type BringMessage = Extract<Question, { type: "attach" | "combine" }>;

/** Sent before `open`: load the libraries, read what is not weights of the model that will come, hold the card. */
export type PrepareMessage = {
  type: "prepare";
  dataDir: string;
  cuda: boolean;
  modelPath: string | null;
  card: boolean;
};

export type ToThread =
  | PrepareMessage
  | OpenMessage
  | SubmitMessage
  | { type: "cancel"; sequences: readonly number[] }
  /** Blocks of so many bytes may be written to the disk. 0: none for now. */
  | { type: "room"; bytes: number }
  | Question;

export type FromThread =
  | Float64Array
  | { type: "progress"; fraction: number }
  /** The model's address is the same for every thread of the process. */
  | { type: "opened"; model: number; facts: Omit<ModelFacts, "bosToken" | "eosToken"> }
  /** `unusable`: the file is no model that can be served here. */
  | { type: "unopened"; error: string; unusable: boolean }
  | { type: "failed"; sequence: number; error: string }
  | PrefixMessage
  | { type: "answer"; id: number; error?: string; vectors?: Float32Array[]; address?: number };

/** Room for blocks is needed, or what was done with blocks since the last message. */
export type PrefixMessage =
  | { type: "wants_room"; bytes: number }
  | { type: "prefixes"; counts: PrefixCounts; problem: string | null };

/** One open model on the decoding thread. */
export type OpenModel = {
  readonly idle: boolean;
  submit: (message: SubmitMessage) => void;
  cancel: (sequences: readonly number[]) => void;
  bring: (message: BringMessage, done: (error?: unknown) => void) => void;
  withLibrary: (because: string, act: () => void) => void;
  embed: (id: number, prompts: readonly Int32Array[], adapter: string | null) => void;
  attach: (adapter: AdapterFile) => number;
  grant: (bytes: number) => void;
  share: (name: string, address: number) => void;
  combine: (name: string, parts: readonly AdapterPart[]) => void;
  detach: (name: string) => void;
  clear: () => void;
  turn: () => boolean;
  close: () => void;
};
