/**
 * Converts a Hugging Face folder to a GGUF file, or joins the parts of a split one. Both are streamed: memory does not
 * depend on the size of the model.
 */
import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { formatBytes } from "../../../lib/bytes.ts";
import { CheckpointError, familyOfConfig } from "../../../lib/checkpoints/families.ts";
import { describe } from "../../../lib/gguf/describe.ts";
import { parseGguf } from "../../../lib/gguf/parse.ts";
import {
  encodeGgufHeader,
  ggufChunks,
  type Metadata,
  type TensorSource,
  tensorBytes,
} from "../../../lib/gguf/write.ts";
import { UNCOUNTED, type Written, writeStreamAtomic } from "../../../platform/files.ts";
import { textConfig } from "../../checkpoints/config.ts";
import { encoderOfConfig, poolingTypeOf, requireEncoder } from "../../checkpoints/encoder.ts";
import { ggufMetadata } from "../../checkpoints/metadata.ts";
import { requireSupported } from "../../checkpoints/supported.ts";
import { addedTokens, vocabularyOfJson } from "../../checkpoints/tokenizer/json.ts";
import { vocabularyOfSentencepiece } from "../../checkpoints/tokenizer/sentencepiece.ts";
import { otherAddedTokens } from "../../checkpoints/tokenizer/special.ts";
import type { Vocabulary } from "../../checkpoints/tokenizer/vocabulary.ts";
import type { ModelShape } from "../../protocol.ts";
import { encoderFor } from "./encode.ts";
import { planOfEncoder } from "./encoder.ts";
import { type Files, type Folder, openFolder, readSmallFiles } from "./folder.ts";
import { openParts, splitIn } from "./parts.ts";
import { type Quantize, sourcesOf, type Target } from "./sources.ts";

export type Conversion = {
  files: Files;
  /** Name of the model inside the file. */
  name: string;
  into: string;
  quantize: Quantize;
  /** Data directory, with the native libraries. */
  dataDir: string;
  onProgress: (fraction: number) => void;
};

export async function convert({
  files,
  name,
  into,
  quantize,
  dataDir,
  onProgress,
}: Conversion): Promise<Written & { shape: ModelShape }> {
  const split = splitIn(files);
  const opened = split ? await openParts(files, split) : await openFolder(files);
  try {
    const { metadata, sources } =
      "sources" in opened ? opened : planOf(opened, name, { quantize, encode: encoderFor(dataDir) });
    const { shape, bytes } = checkPlan(metadata, sources);
    await requireSpace(dirname(into), bytes);
    let done = 0;
    const onChunk = (chunk: Uint8Array) => {
      done += chunk.byteLength;
      onProgress(Math.min(1, done / bytes));
    };
    return { ...(await writeStreamAtomic(into, ggufChunks(metadata, sources), { onChunk, meter: UNCOUNTED })), shape };
  } finally {
    await opened.close();
  }
}

/** Throws if a conversion would fail whatever the weights are. */
export async function checkFolder(files: Files) {
  const { small } = await readSmallFiles(files);
  const encoder = encoderOfConfig(small.config);
  if (encoder) {
    requireEncoder(small.config);
    poolingTypeOf(encoder, small);
    return;
  }
  const family = familyOfConfig(small.config);
  requireSupported(textConfig(small.config, family), family);
}

function planOf(folder: Folder, name: string, target: Target): { metadata: Metadata; sources: TensorSource[] } {
  const { small, tensors } = folder;
  const encoder = encoderOfConfig(small.config);
  if (encoder) return planOfEncoder(encoder, folder, name, target);
  const family = familyOfConfig(small.config);
  const config = textConfig(small.config, family);
  requireSupported(config, family);
  const sources = sourcesOf(family, config, tensors, target);
  const rows = sources[0]?.dims[1] ?? 0;
  const vocabulary = vocabularyOf(folder, rows);
  const type = target.quantize ?? sources[0]?.type ?? "F32";
  const metadata = ggufMetadata({ name, family, config, vocabulary, files: { ...small, config }, type });
  small.tokenizer = undefined; // its memory is needed for the weights
  return { metadata, sources };
}

/** Byte-level BPE is only in tokenizer.json. For SentencePiece, tokenizer.model is the original. */
function vocabularyOf({ small, sentencepiece }: Folder, rows: number): Vocabulary {
  const model = (small.tokenizer as { model?: { byte_fallback?: unknown } } | undefined)?.model;
  const added = otherAddedTokens(small);
  if (sentencepiece && (model === undefined || model?.byte_fallback === true))
    return vocabularyOfSentencepiece(sentencepiece, rows, [...added, ...addedTokens(small.tokenizer)]);
  return vocabularyOfJson(small.tokenizer, rows, added);
}

/** The header is checked by the same rules as a file from outside, before the weights are written. */
function checkPlan(metadata: Metadata, sources: readonly TensorSource[]): { shape: ModelShape; bytes: number } {
  const header = encodeGgufHeader(metadata, sources);
  const padded = (size: number) => Math.ceil(size / 32) * 32;
  const bytes = sources.reduce((sum, source) => sum + padded(tensorBytes(source)), header.byteLength);
  const parsed = parseGguf(header, bytes);
  if ("need" in parsed) throw new CheckpointError("The header of the new file is incomplete");
  return { shape: describe(parsed), bytes };
}

async function requireSpace(dir: string, bytes: number) {
  const { bavail, bsize } = await statfs(dir);
  if (bavail * bsize >= bytes) return;
  throw new CheckpointError(
    `The model needs ${formatBytes(bytes)}, and ${formatBytes(bavail * bsize)} are free in ${dir}: free some space`,
  );
}
