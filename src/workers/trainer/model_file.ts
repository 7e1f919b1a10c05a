import { open } from "node:fs/promises";
import { readHeader } from "../../lib/gguf/read.ts";
import type { ModelFile } from "./engine/weights.ts";

export async function readModelFile(path: string): Promise<ModelFile> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const read = async (buffer: Uint8Array, at: number, length: number, from: number) =>
      (await file.read(buffer, at, length, from)).bytesRead;
    return { path, header: await readHeader(read, size) };
  } finally {
    await file.close();
  }
}
