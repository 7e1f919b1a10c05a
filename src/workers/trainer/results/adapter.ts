/** Reads the learned weights from the device: adapters, or all weights. */
import { ptr } from "bun:ffi";
import { type Backend, getFloats } from "../../../native/ggml/ggml.ts";
import { type Lora, loraNames, type Weights } from "../engine/weights.ts";

/** Both matrices row by row, as in ggml and PyTorch: A has `rank` rows of `inputs`, B `outputs` rows of `rank`. */
export type AdapterLayer = { name: string; inputs: number; outputs: number; a: Float32Array; b: Float32Array };
export type Adapter = Pick<Lora, "rank" | "alpha" | "rslora"> & {
  architecture: string;
  /** Named after the weights they change, such as blk.0.attn_q.weight. */
  layers: readonly AdapterLayer[];
};

/** Returns some rows of a trained weight, or undefined if the file's own weight is unchanged. */
export type ReadRows = (name: string, firstRow: number, rows: number) => Float32Array | undefined;

export function adapterOf({ backend, lora, trainable }: Weights, architecture: string): Adapter {
  if (!lora) throw new Error("All weights were trained, so there is no adapter");
  const byName = new Map(trainable.map((each) => [each.name, each]));
  const layers = trainable.flatMap(({ name }): AdapterLayer[] => {
    if (!name.endsWith(".lora_a")) return [];
    const of = name.slice(0, -".lora_a".length);
    const [a, b] = [byName.get(name), byName.get(loraNames(of).b)];
    if (!a || !b) throw new Error(`${name} has no matching second matrix`);
    const read = (each: typeof a) => getFloats(backend.ggml, each.tensor);
    return [{ name: of, inputs: a.shape[0] ?? 1, outputs: b.shape[1] ?? 1, a: read(a), b: read(b) }];
  });
  return { architecture, rank: lora.rank, alpha: lora.alpha, rslora: lora.rslora, layers };
}

/** Rows of a full training. */
export function trainedRows({ backend, trainable }: Weights): ReadRows {
  const byName = new Map(trainable.map((each) => [each.name, each]));
  return (name, firstRow, rows) => {
    const weight = byName.get(name);
    return weight && readRows(backend, weight.tensor, { row: weight.shape[0] ?? 1, firstRow, rows });
  };
}

type Rows = { row: number; firstRow: number; rows: number };
function readRows({ ggml }: Backend, tensor: Parameters<typeof getFloats>[1], { row, firstRow, rows }: Rows) {
  const values = new Float32Array(row * rows);
  ggml.ggml_backend_tensor_get(tensor, ptr(values), firstRow * row * 4, values.byteLength);
  return values;
}

/** A token embedding is a row lookup, not a product: llama.cpp and PEFT store its adapter differently. */
export function mustBeProducts({ layers }: Adapter) {
  if (layers.some(({ name }) => name === "token_embd.weight"))
    throw new Error("An adapter of the token embeddings cannot be written to its own file. Merge it instead");
}
