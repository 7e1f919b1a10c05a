/** Splits a GGUF file as llama-gguf-split does: all metadata in the first part, the tensors spread over all. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Header, parseGguf } from "../src/lib/gguf/parse.ts";
import { partNames } from "../src/lib/gguf/parts.ts";
import { ggufChunks, type NewValue, type TensorSource } from "../src/lib/gguf/write.ts";

type Options = { dir: string; stem: string; count: number };

/** Returns the names of the parts. */
export async function splitGguf(path: string, { dir, stem, count }: Options): Promise<string[]> {
  const bytes = readFileSync(path);
  const header = parseGguf(bytes, bytes.byteLength) as Header;
  const tensors = [...header.tensors.values()].map(({ name, type, dims, offset, bytes: length }): TensorSource => {
    const start = header.dataStart + offset;
    return { name, type: type.name, dims, content: () => [bytes.subarray(start, start + length)] };
  });
  const names = partNames({ stem, count });
  for (const [i, name] of names.entries()) {
    const own: [string, NewValue | Uint8Array][] = [
      ["split.no", { type: "uint16", value: i }],
      ["split.count", { type: "uint16", value: count }],
      ["split.tensors.count", { type: "int32", value: tensors.length }],
    ];
    const all = i > 0 ? [] : [...header.spans].map(([key, { start, end }]) => [key, bytes.slice(start, end)] as const);
    const [from, to] = [i, i + 1].map((each) => Math.floor((tensors.length * each) / count));
    const chunks: Uint8Array[] = [];
    for await (const chunk of ggufChunks(new Map([...all, ...own]), tensors.slice(from, to)))
      chunks.push(chunk.slice());
    writeFileSync(join(dir, name), Buffer.concat(chunks));
  }
  return names;
}
