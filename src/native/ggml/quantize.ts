/** Quantizes rows with libggml-base alone, without its devices. Only child processes use it. */
import { dlopen, FFIType, ptr } from "bun:ffi";
import { TENSOR_TYPES } from "../../lib/gguf/types.ts";
import { openOnce } from "../llama/libraries.ts";

const L = FFIType.i64_fast;
const SYMBOLS = {
  ggml_quantize_chunk: { args: ["i32", "ptr", "ptr", L, L, L, "ptr"], returns: FFIType.u64_fast },
} as const;

const openQuantizer = openOnce((_, { files }) => dlopen(files.ggmlBase, SYMBOLS).symbols);
const types = new Map([...TENSOR_TYPES].map(([number, type]) => [type.name, { number, ...type }]));

/** `values` are whole rows, and every value is finite: native code may abort on others. */
export function quantizeRows(dataDir: string, type: string, values: Float32Array, columns: number): Uint8Array {
  const format = types.get(type);
  if (!format || columns % format.block !== 0) throw new Error(`rows of ${columns} values cannot become ${type}`);
  const out = new Uint8Array((values.length / format.block) * format.bytes);
  const { ggml_quantize_chunk: quantize } = openQuantizer(dataDir, { cuda: false });
  const written = Number(quantize(format.number, ptr(values), ptr(out), 0, values.length / columns, columns, null));
  if (written !== out.byteLength) throw new Error(`${type}: ggml wrote ${written} bytes instead of ${out.byteLength}`);
  return out;
}
