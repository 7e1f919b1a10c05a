import { open } from "node:fs/promises";
import { readHeader } from "../../lib/gguf/read.ts";
import { readInto } from "../../platform/files.ts";
import type { ModelFile } from "./engine/weights.ts";

export async function readModelFile(path: string): Promise<ModelFile> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    return { path, header: await readHeader((into, at) => readInto(file, into, at), size) };
  } finally {
    await file.close();
  }
}

/** The vocabulary as the file has it. Models with equal bytes read the same numbers as the same text. */
export async function tokenBytes({ path, header }: ModelFile): Promise<Uint8Array> {
  const { start, end } = header.spans.get("tokenizer.ggml.tokens") ?? { start: 0, end: 0 };
  return await Bun.file(path).slice(start, end).bytes();
}
