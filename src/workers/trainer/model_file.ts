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
