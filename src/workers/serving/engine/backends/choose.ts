/** Decides what decodes a model, and opens our kernels for it. */
import { errorText } from "../../../../lib/error_text.ts";
import type { Header } from "../../../../lib/gguf/parse.ts";
import { type Device, PAGE } from "../../../../native/cuda/decode/kernels.ts";
import { OutOfMemory } from "../../../../native/ggml/out_of_memory.ts";
import { openReader } from "../../../../native/shim/read.ts";
import { openDecoder } from "../../../decoder/decoder.ts";
import { type DecoderModel, loadModel, reasonAgainst } from "../../../decoder/model.ts";
import { dependsOnBatch, hasWidePasses, wideFor } from "../../../decoder/plan.ts";
import { decodedBytes, holdDecoded } from "../../../decoder/steps/wide.ts";
import type { BlockStore, Decoder } from "../../../decoder/types.ts";
import type { OpenMessage } from "../thread/messages.ts";
import { deviceFor, headerFor } from "./ahead.ts";

/** `isInvariant`: an answer does not depend on what is decoded beside it. */
export type OpenedKernels = { decoder: Decoder; header: Header; isInvariant: boolean; close: () => void };

const MOST_ADAPTERS = 256; // places in a table; their memory is taken when they come
const PROMPT_TOKENS = 2048; // of one pass; more need larger buffers

/** Returns our kernels for this model, or the reason why the library decodes it. `own` makes the reason an error. */
export function openKernels(open: OpenMessage, blocks: BlockStore | null): OpenedKernels | string {
  const opened = tryKernels(open, blocks);
  if (typeof opened === "string" && open.decoder === "own")
    throw new Error(`serving.decoder is "own", but the library must decode this model: ${opened}`);
  return opened;
}

function tryKernels(open: OpenMessage, blocks: BlockStore | null): OpenedKernels | string {
  if (open.decoder === "library") return 'serving.decoder is "library", or llama.cpp was measured to be faster';
  if (open.images) return "it reads images";
  if (open.model !== null || open.unified || open.steady) return "its weights or its cache are shared";
  const device = deviceFor(open);
  if (typeof device === "string") return device;
  try {
    const header = headerFor(open.modelPath);
    const reason = reasonAgainst(header);
    if (reason === null) return load(device, { open, blocks }, header);
    device.close();
    return `Verk's kernels do not decode ${reason}`;
  } catch (error) {
    device.close();
    if (error instanceof OutOfMemory) throw error;
    return errorText(error);
  }
}

type Opening = { open: OpenMessage; blocks: BlockStore | null };

function load(device: Device, { open, blocks }: Opening, header: Header): OpenedKernels {
  const { dataDir, modelPath, contextLength, parallel, guesses, batchInvariant, kvType } = open;
  const read = openReader(dataDir);
  const model = loadModel(device, { path: modelPath, header, read }, contextLength);
  try {
    const pages = parallel * Math.ceil(contextLength / PAGE);
    const wide = batchInvariant === "on" ? null : wideFor(model.matrices.values());
    const decoder = openDecoder(device, model, {
      slots: parallel,
      contextLength,
      kvType,
      pages,
      promptTokens: PROMPT_TOKENS,
      ahead: true,
      guesses,
      blocks,
      wide,
      adapters: { most: MOST_ADAPTERS, read },
    });
    const copies = open.repack === "auto" && hasWidePasses(wide, parallel) ? tryCopies(device, model) : null;
    const close = () => {
      decoder.close();
      copies?.free();
      model.free();
      device.close();
    };
    return { decoder, header, isInvariant: !dependsOnBatch(wide, parallel), close };
  } catch (error) {
    model.free();
    throw error;
  }
}

const MOST_OF_FREE = 1 / 4;

/** A copy in BF16 of quantized weights, where it takes little of the memory that is left. */
function tryCopies(device: Device, model: DecoderModel) {
  const bytes = decodedBytes(model);
  if (bytes === 0 || bytes > device.freeBytes() * MOST_OF_FREE) return null;
  return holdDecoded(device, model);
}
