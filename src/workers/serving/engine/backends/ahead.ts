/**
 * Lets the decoding thread of a standby process do work before `open`. It holds the card, and reads the header and the
 * vocabulary of the model that will come; both take longer than to copy the weights of a small model. A failure here only
 * costs time: `open` does the work then.
 */

import { statSync } from "node:fs";
import { errorText } from "../../../../lib/error_text.ts";
import type { Header } from "../../../../lib/gguf/parse.ts";
import type { Device } from "../../../../native/cuda/decode/kernels.ts";
import { openDecodeDevice } from "../../../../native/cuda/decode/open.ts";
import type { Ptr } from "../../../../native/ffi.ts";
import { type Llama, openLlama } from "../../../../native/llama/symbols.ts";
import { headerOf } from "../../../decoder/header.ts";
import { reasonAgainst } from "../../../decoder/model.ts";
import type { OpenMessage, PrepareMessage } from "../thread/messages.ts";
import { loadVocabulary } from "./open_library.ts";

/** `vocabulary` null: it is in use. */
type Model = { file: string; header: Header; vocabulary: Ptr | null };

let model: Model | null = null;
let held: Device | null = null;

export function prepareAhead({ dataDir, cuda, modelPath, card }: PrepareMessage) {
  const llama = openLlama(dataDir, { cuda });
  try {
    if (modelPath !== null) model = readModel(llama, modelPath);
    if (card) held = hold(dataDir);
  } catch (error) {
    console.error(`A wake will take longer: ${errorText(error)}`);
  }
}

function readModel(llama: Llama, path: string): Model | null {
  const [file, header] = [fileOf(path), headerOf(path)];
  return reasonAgainst(header) === null ? { file, header, vocabulary: loadVocabulary(llama, path) } : null;
}

/** The first copies make the pinned buffers that all others use. */
function hold(dataDir: string): Device | null {
  const device = source.open({ dataDir, gpus: [0] });
  if (typeof device === "string") return null;
  const at = device.allocate(16);
  for (let i = 0; i < 2; i++) device.fill(at, 16, () => {});
  device.free(at);
  return device;
}

/** The same bytes have the same name here: a file that was replaced has another inode. */
function fileOf(path: string): string {
  const { dev, ino, size, mtimeMs } = statSync(path);
  return [dev, ino, size, mtimeMs].join();
}

export function deviceFor(open: Pick<OpenMessage, "dataDir" | "gpus">): Device | string {
  const [index = 0, ...more] = open.gpus;
  if (held === null || index !== 0 || more.length > 0) return source.open(open);
  const device = held;
  held = null;
  return device;
}

export const headerFor = (path: string): Header => (model?.file === fileOf(path) ? model.header : headerOf(path));

export function vocabularyFor(llama: Llama, path: string): Ptr {
  const ready = model?.file === fileOf(path) ? model.vocabulary : null;
  if (model && ready !== null) model.vocabulary = null;
  return ready ?? loadVocabulary(llama, path);
}

/** Frees what the open model does not use. */
export function forgetAhead(llama: Llama) {
  if (model && model.vocabulary !== null) llama.llama_model_free(model.vocabulary);
  held?.close();
  [model, held] = [null, null];
}

/** Tests replace the GPU by an emulation. */
export const source: { open: (open: Pick<OpenMessage, "dataDir" | "gpus">) => Device | string } = {
  open: ({ dataDir, gpus }) => openDecodeDevice(dataDir, gpus),
};
