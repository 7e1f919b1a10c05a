/** verk-tiny at half its size: every second layer, and most of the inner width. It still writes words, but cannot compute. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Header, parseGguf, type Tensor } from "../src/lib/gguf/parse.ts";
import { ggufChunks, type NewValue, type TensorSource } from "../src/lib/gguf/write.ts";

const TINY = join(import.meta.dir, "../models/verk-tiny/verk-tiny.gguf");
const LAYERS = [0, 2, 5];
const INNER = 416; // of 512

/** Returns the number of parameters of both models. */
export async function writeHalfTiny(path: string): Promise<{ tiny: number; half: number }> {
  const bytes = readFileSync(TINY);
  const header = parseGguf(bytes, bytes.byteLength) as Header;
  const all = [...header.tensors.values()];
  const dataOf = ({ offset, bytes: length }: Tensor) =>
    bytes.subarray(header.dataStart + offset, header.dataStart + offset + length);
  const tensors = all.flatMap((tensor): TensorSource[] => {
    const [, layer, part] = /^blk\.(\d+)\.(.*)$/.exec(tensor.name) ?? [];
    const kept = layer === undefined ? 0 : LAYERS.indexOf(Number(layer));
    if (kept < 0) return [];
    const { dims, content } = narrowed(tensor, dataOf(tensor));
    const name = layer === undefined ? tensor.name : `blk.${kept}.${part}`;
    return [{ name, type: tensor.type.name, dims, content: () => [content] }];
  });
  const changed: [string, NewValue][] = [
    ["llama.block_count", { type: "uint32", value: LAYERS.length }],
    ["llama.feed_forward_length", { type: "uint32", value: INNER }],
  ];
  const copied = [...header.spans].map(([key, { start, end }]) => [key, bytes.slice(start, end)] as const);
  const chunks: Uint8Array[] = [];
  for await (const chunk of ggufChunks(new Map<string, NewValue | Uint8Array>([...copied, ...changed]), tensors))
    chunks.push(chunk.slice());
  writeFileSync(path, Buffer.concat(chunks));
  const sizeOf = (dims: readonly number[]) => dims.reduce((a, b) => a * b, 1);
  return {
    tiny: all.reduce((sum, { elements }) => sum + elements, 0),
    half: tensors.reduce((sum, { dims }) => sum + sizeOf(dims), 0),
  };
}

/** Keeps the first inner numbers of the feed-forward part. */
function narrowed({ name, dims }: Tensor, content: Uint8Array): { dims: readonly number[]; content: Uint8Array } {
  const [row = 1, rows = 1] = dims;
  const rowBytes = content.byteLength / rows;
  if (/ffn_(gate|up)\./.test(name)) return { dims: [row, INNER], content: content.subarray(0, rowBytes * INNER) };
  if (!/ffn_down\./.test(name)) return { dims, content };
  const kept = Array.from({ length: rows }, (_, i) =>
    content.subarray(i * rowBytes, i * rowBytes + (rowBytes * INNER) / row),
  );
  return { dims: [INNER, rows], content: Buffer.concat(kept) };
}
