/** Decides how a model's embeddings are computed, by the metadata of its file. */
import { type Pooling, poolingNamed } from "../../../../lib/gguf/pooling.ts";
import type { Ptr } from "../../../../native/ffi.ts";
import { metadataText } from "../../../../native/llama/load.ts";
import type { Llama } from "../../../../native/llama/symbols.ts";
import type { Adapters } from "../adapters.ts";
import type { Pace } from "../pace.ts";
import type { Pulse } from "../thread/pulse.ts";
import { Embedder } from "./embedder.ts";
import { PooledReader } from "./pooled.ts";
import { StateReader } from "./states.ts";

export type ReaderOptions = {
  llama: Llama;
  model: Ptr;
  contextLength: number;
  threads: number;
  pace: Pace;
  pulse: Pulse;
};

export type EmbeddingKind = {
  /** The model generates no text: every token sees all others. */
  isEncoder: boolean;
  /** The file names a pooling: it is made for embeddings or scores. */
  hasPooling: boolean;
  pooling: Exclude<Pooling, "none">;
};

/** The metadata is there even if only the vocabulary is loaded. */
export function embeddingKindOf(llama: Llama, model: Ptr): EmbeddingKind {
  const architecture = metadataText(llama, model, "general.architecture");
  const pooling = metadataText(llama, model, `${architecture}.pooling_type`);
  return {
    hasPooling: Number(pooling) > 0,
    isEncoder: metadataText(llama, model, `${architecture}.attention.causal`) === "false",
    pooling: poolingNamed(pooling === "" ? undefined : Number(pooling)),
  };
}

export function openEmbedder(options: ReaderOptions, adapters: Adapters): Embedder {
  const { isEncoder, pooling } = embeddingKindOf(options.llama, options.model);
  const isPooled = isEncoder || pooling === "rank";
  return new Embedder(isPooled ? new PooledReader(options, pooling) : new StateReader(options, pooling), adapters);
}
