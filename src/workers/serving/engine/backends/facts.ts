/** Facts of an open model, read from the library, and the memory that it took. */
import { readFileSync } from "node:fs";
import type { Header } from "../../../../lib/gguf/parse.ts";
import { cstr, must, type Ptr, text } from "../../../../native/ffi.ts";
import { type Device, freeBytes, metadataText } from "../../../../native/llama/load.ts";
import type { Llama } from "../../../../native/llama/symbols.ts";
import { pageBytes } from "../../../../native/platform/index.ts";
import { embeddingKindOf } from "../embedding/open.ts";
import type { OpenMessage } from "../thread/messages.ts";
import type { ModelFacts } from "../types.ts";

export type ThreadFacts = Omit<ModelFacts, "bosToken" | "eosToken">;

/** Starts a measurement. The returned function gives the bytes taken since. */
export function memoryMeter(llama: Llama, devices: readonly Device[]): () => number {
  const resident = () => Number(readFileSync("/proc/self/statm", "latin1").split(" ")[1]) * pageBytes();
  const free = () => devices.reduce((sum, { device }) => sum + freeBytes(llama, device), 0);
  const before = devices.length > 0 ? free() : resident();
  return () => Math.max(0, devices.length > 0 ? before - free() : resident() - before);
}

type Measured = { devices: readonly Device[]; memoryBytes: number; decoder: string; header: Header | null };

/** `header`: the library has loaded only the vocabulary, so sizes come from the file. */
export function readFacts(llama: Llama, model: Ptr, open: OpenMessage, measured: Measured): ThreadFacts {
  const { devices, memoryBytes, decoder, header } = measured;
  const vocab = must(llama.llama_model_get_vocab(model), "llama_model_get_vocab");
  const template = (name: string | null) =>
    text(llama.llama_model_chat_template(model, name === null ? null : cstr(name))) || null;
  const architecture = metadataText(llama, model, "general.architecture");
  const ofFile = (key: string) => Number(header?.metadata.get(`${architecture}.${key}`)?.value ?? 0);
  return {
    architecture,
    ...embeddingKindOf(llama, model),
    contextLength: open.contextLength,
    trainedContextLength: header ? ofFile("context_length") : llama.llama_model_n_ctx_train(model),
    parallel: open.parallel,
    vocabSize: llama.llama_vocab_n_tokens(vocab),
    embeddingSize: header ? ofFile("embedding_length") : llama.llama_model_n_embd_out(model),
    parameters: Number(llama.llama_model_n_params(model)),
    weightBytes: Number(llama.llama_model_size(model)),
    memoryBytes,
    addsBos: llama.llama_vocab_get_add_bos(vocab),
    pairs: {
      template: template("rerank"),
      bos: llama.llama_vocab_get_add_bos(vocab) ? llama.llama_vocab_bos(vocab) : NONE,
      eos: llama.llama_vocab_get_add_eos(vocab) ? endOf(llama, vocab) : NONE,
      sep: llama.llama_vocab_get_add_sep(vocab) ? llama.llama_vocab_sep(vocab) : NONE,
    },
    gap: gapTokens(llama, vocab),
    chatTemplate: template(null),
    toolTemplate: template("tool_use"),
    device: devices.length > 0 ? devices.map((d) => d.description).join(", ") : "CPU",
    decoder,
  };
}

const NONE = -1;

/** By the numbers in the file, else by the names that the library knows. */
function gapTokens(llama: Llama, vocab: Ptr): ModelFacts["gap"] {
  const prefix = llama.llama_vocab_fim_pre(vocab);
  const suffix = llama.llama_vocab_fim_suf(vocab);
  const middle = llama.llama_vocab_fim_mid(vocab);
  return Math.min(prefix, suffix, middle) < 0 ? null : { prefix, suffix, middle };
}

/** Encoders end a text with the separator. */
const endOf = (llama: Llama, vocab: Ptr): number => {
  const end = llama.llama_vocab_eos(vocab);
  return end < 0 ? llama.llama_vocab_sep(vocab) : end;
};
