import { ptr } from "bun:ffi";
import type { Ptr } from "../../src/native/ffi.ts";
import { putBytes, TYPE } from "../../src/native/ggml/ggml.ts";
import { type Ggml, typeOf } from "../../src/native/ggml/symbols.ts";

/** Encodes the values in the type of the tensor. `row` is the size of its first dimension. */
export function putFloats(ggml: Ggml, tensor: Ptr, values: Float32Array, row: number) {
  const type = typeOf(tensor);
  if (type === TYPE.F32) return putBytes(ggml, tensor, values);
  const encoded = new Uint8Array(Number(ggml.ggml_row_size(type, row)) * (values.length / row));
  if (type === TYPE.BF16) ggml.ggml_fp32_to_bf16_row(ptr(values), ptr(encoded), values.length);
  else if (type === TYPE.F16) ggml.ggml_fp32_to_fp16_row(ptr(values), ptr(encoded), values.length);
  else ggml.ggml_quantize_chunk(type, ptr(values), ptr(encoded), 0, values.length / row, row, null);
  putBytes(ggml, tensor, encoded);
}
