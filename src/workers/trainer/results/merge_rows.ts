/**
 * Merges rows of a weight with the learned change and converts their type, with ggml on the CPU, some rows at a time.
 * Input may have any type that ggml can decode; output is F32, F16, BF16 or Q8_0.
 */
import { ptr } from "bun:ffi";
import { TENSOR_TYPES } from "../../../lib/gguf/types.ts";
import { must } from "../../../native/ffi.ts";
import { allocate, type Backend, newContext, newTensor, type Ptr, putBytes, TYPE } from "../../../native/ggml/ggml.ts";
import type { AdapterLayer } from "./adapter.ts";

const typeNumbers = new Map([...TENSOR_TYPES].map(([number, { name }]) => [name, number]));
const typeNumber = (name: string): number => typeNumbers.get(name) ?? TYPE.F32;

export type Delta = AdapterLayer & { rank: number; scale: number };
export type RowsPlan = { from: string; to: string; inputs: number; rows: number; delta?: Delta | undefined };

export type RowMerger = {
  /** Takes `rows` rows from `firstRow` on, as stored in the file. The next call overwrites the result. */
  merge: (stored: NodeJS.TypedArray, firstRow: number) => Uint8Array;
  free: () => void;
};

export function openRowMerger(backend: Backend, plan: RowsPlan): RowMerger {
  const { ggml } = backend;
  const { inputs, rows, delta } = plan;
  const context = newContext(ggml, 16, 16);
  const tensor = (type: number, shape: readonly number[]) => newTensor(ggml, context, type, shape);
  const source = tensor(typeNumber(plan.from), [inputs, rows]);
  const a = delta && tensor(TYPE.F32, [inputs, delta.rank]);
  const b = delta && tensor(TYPE.F32, [delta.rank, rows]);
  const cast = (of: Ptr, type: string, is: string) =>
    type === is ? of : must(ggml.ggml_cast(context.at, of, typeNumber(type)), "cast");
  let sum = cast(source, "F32", plan.from);
  if (a && b) {
    const turned = must(ggml.ggml_transpose(context.at, b), "transpose");
    const product = must(ggml.ggml_out_prod(context.at, a, turned), "out_prod"); // (inputs, rows)
    sum = must(ggml.ggml_add(context.at, sum, product), "add");
  }
  const result = cast(sum, plan.to, "F32");
  const graph = must(ggml.ggml_new_graph_custom(context.at, 16, false), "graph");
  ggml.ggml_build_forward_expand(graph, result);
  const buffer = allocate(backend, context);
  if (a && delta) putBytes(ggml, a, delta.a);
  const out = new Uint8Array(Number(ggml.ggml_nbytes(result)));
  return {
    merge(stored, firstRow) {
      putBytes(ggml, source, stored);
      if (b && delta) putBytes(ggml, b, scaledRows(delta, firstRow, rows));
      if (ggml.ggml_backend_graph_compute(backend.at, graph) !== 0)
        throw new Error(`Rows of the type ${plan.from} could not be converted to ${plan.to}`);
      ggml.ggml_backend_tensor_get(result, ptr(out), 0, out.byteLength);
      return out;
    },
    free() {
      buffer.free();
      context.free();
    },
  };
}

const scaledRows = ({ b, rank, scale }: Delta, firstRow: number, rows: number) =>
  b.subarray(firstRow * rank, (firstRow + rows) * rank).map((value) => value * scale);
