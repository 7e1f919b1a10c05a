/** Random adapters, and the logits that llama.cpp computes with a file. */
import { dlopen, ptr, toArrayBuffer } from "bun:ffi";
import { readFileSync } from "node:fs";
import { type Header, parseGguf } from "../src/lib/gguf/parse.ts";
import { cstr, must } from "../src/native/ffi.ts";
import { llamaLibraries } from "../src/native/llama/libraries.ts";
import type { Adapter } from "../src/workers/trainer/results/adapter.ts";
import { tempDir } from "./harness.ts";
import { decode, openPlainContext, withModel } from "./serving/reference.ts";

export function headerOf(bytes: Uint8Array): Header {
  const header = parseGguf(bytes, bytes.byteLength);
  if ("need" in header) throw new Error("the header is longer than the file");
  return header;
}

const DECODERS: Record<string, string> = {
  F16: "ggml_fp16_to_fp32_row",
  BF16: "ggml_bf16_to_fp32_row",
  Q8_0: "dequantize_row_q8_0",
  Q4_K: "dequantize_row_q4_K",
  Q6_K: "dequantize_row_q6_K",
};

/** Every tensor of the file, decoded by libggml's plain functions. */
export function decodedTensors(path: string): Map<string, { type: string; values: Float32Array }> {
  const { ggmlBase } = llamaLibraries(tempDir(), { cuda: false }).files;
  const bytes = readFileSync(path);
  const { tensors, dataStart } = headerOf(bytes);
  const decoded = [...tensors.values()].map(({ name, type, offset, bytes: size, elements }) => {
    const stored = bytes.subarray(dataStart + offset, dataStart + offset + size);
    const values = new Float32Array(elements);
    const symbol = DECODERS[type.name];
    if (symbol === undefined) new Uint8Array(values.buffer).set(stored);
    else
      dlopen(ggmlBase, { [symbol]: { args: ["ptr", "ptr", "i64"], returns: "void" } }).symbols[symbol]?.(
        ptr(stored),
        ptr(values),
        elements,
      );
    return [name, { type: type.name, values }] as const;
  });
  return new Map(decoded);
}

function uniform(seed: number) {
  let state = seed >>> 0;
  return (length: number, size: number) =>
    Float32Array.from({ length }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return (state / 2 ** 31 - 1) * size;
    });
}

type AdapterSettings = Pick<Adapter, "rank" | "alpha" | "rslora"> & { parts: readonly string[] };

/** An adapter for every matching layer of the model in the file. */
export function randomAdapter(base: string, { parts, ...lora }: AdapterSettings): Adapter {
  const { metadata, tensors } = headerOf(readFileSync(base));
  const random = uniform(7);
  const chosen = [...tensors.values()].filter(({ name }) => parts.some((part) => name.endsWith(`${part}.weight`)));
  const layers = chosen.map(({ name, dims }) => {
    const [inputs = 1, outputs = 1] = dims;
    const a = random(inputs * lora.rank, 1 / Math.sqrt(inputs));
    return { name, inputs, outputs, a, b: random(outputs * lora.rank, 0.5) };
  });
  return { ...lora, architecture: String(metadata.get("general.architecture")?.value), layers };
}

/** W + scale · B · A, in double precision, one weight at a time. */
export function mergedByHand(weights: Float32Array, adapter: Adapter, name: string, scale: number): Float32Array {
  const layer = adapter.layers.find((each) => each.name === name);
  if (!layer) return weights;
  return weights.map((weight, at) => {
    const [row, column] = [Math.floor(at / layer.inputs), at % layer.inputs];
    let sum = 0;
    for (let r = 0; r < adapter.rank; r++)
      sum += layer.b[row * adapter.rank + r]! * layer.a[r * layer.inputs + column]!;
    return weight + scale * sum;
  });
}

/** Logits at every position of a text. */
export function logitsOf(path: string, tokens: Int32Array, adapter?: string): Float32Array {
  return withModel(path, (loaded) => {
    const { llama, model, vocabSize } = loaded;
    const context = openPlainContext(loaded, false);
    const lora = adapter === undefined ? null : must(llama.llama_adapter_lora_init(model, ptr(cstr(adapter))), adapter);
    if (lora !== null)
      llama.llama_set_adapters_lora(context, ptr(BigUint64Array.of(BigInt(lora))), 1, ptr(Float32Array.of(1)));
    decode(llama, context, tokens, 0);
    const all = new Float32Array(tokens.length * vocabSize);
    for (let row = 0; row < tokens.length; row++) {
      const at = must(llama.llama_get_logits_ith(context, row), "logits");
      all.set(new Float32Array(toArrayBuffer(at, 0, vocabSize * 4)), row * vocabSize);
    }
    llama.llama_free(context);
    return all;
  });
}

export function relativeError(got: Float32Array, want: Float32Array): number {
  let difference = 0;
  let size = 0;
  for (let i = 0; i < want.length; i++) {
    difference += (got[i]! - want[i]!) ** 2;
    size += want[i]! ** 2;
  }
  return Math.sqrt(difference / size);
}
