/** Rows of quantized weights and the numbers that ggml decodes them to. */
import { dlopen, ptr } from "bun:ffi";
import { TENSOR_TYPES } from "../../src/lib/gguf/types.ts";
import { llamaLibraries } from "../../src/native/llama/libraries.ts";

const ROW = { args: ["ptr", "ptr", "i64"], returns: "void" } as const;
const DECODERS = {
  dequantize_row_q4_0: ROW,
  dequantize_row_q8_0: ROW,
  dequantize_row_q4_K: ROW,
  dequantize_row_q5_K: ROW,
  dequantize_row_q6_K: ROW,
};
const NAMES: Readonly<Record<string, keyof typeof DECODERS>> = {
  Q4_0: "dequantize_row_q4_0",
  Q8_0: "dequantize_row_q8_0",
  Q4_K: "dequantize_row_q4_K",
  Q5_K: "dequantize_row_q5_K",
  Q6_K: "dequantize_row_q6_K",
};
let opened: ReturnType<typeof dlopen<typeof DECODERS>> | undefined;

export function ggmlDecoded(type: string, bytes: Uint8Array): Float32Array {
  opened ??= dlopen(llamaLibraries("", { cuda: false }).files.ggmlBase, DECODERS);
  const decode = opened.symbols[NAMES[type] as keyof typeof DECODERS];
  const { block, bytes: size } = [...TENSOR_TYPES.values()].find(({ name }) => name === type)!;
  const out = new Float32Array((bytes.length / size) * block);
  decode(ptr(bytes), ptr(out), out.length);
  return out;
}
