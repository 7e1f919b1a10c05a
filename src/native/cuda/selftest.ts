/**
 * A small computation on each device of a type. It proves that the library has machine code for this card and driver.
 * Without such code ggml ends the process, so only a child process runs it.
 */

import { must, type Ptr, text } from "../ffi.ts";
import { allocate, type Backend, GPU_TYPE, getFloats, newContext, newTensor, putBytes, TYPE } from "../ggml/ggml.ts";
import type { Ggml } from "../ggml/symbols.ts";

export type TestedDevice = { name: string; description: string };

const SIDE = 64; // large enough for ggml to use cuBLAS
const NODES = 8;

export const computeOnGpus = (ggml: Ggml): TestedDevice[] => computeOn(ggml, GPU_TYPE);

/** Throws if the result of a device is not A·B + A. */
export function computeOn(ggml: Ggml, type: number): TestedDevice[] {
  const all = Array.from({ length: Number(ggml.ggml_backend_dev_count()) }, (_, i) => ggml.ggml_backend_dev_get(i));
  return all.flatMap((device) => {
    if (device === null || ggml.ggml_backend_dev_type(device) !== type) return [];
    const name = text(ggml.ggml_backend_dev_name(device));
    const description = text(ggml.ggml_backend_dev_description(device));
    const at = must(ggml.ggml_backend_dev_init(device, null), name);
    try {
      const wrong = firstDifference(productOn({ ggml, at }));
      if (wrong !== null) throw new Error(`${name} (${description}) computes wrong numbers: ${wrong}`);
    } finally {
      ggml.ggml_backend_free(at);
    }
    return [{ name, description }];
  });
}

// Small integers have the same sums on every device and in every precision.
const left = (row: number, column: number) => (row + column) % 3;
const right = (row: number, column: number) => (row * column) % 5;
const matrix = (value: typeof left) =>
  Float32Array.from({ length: SIDE * SIDE }, (_, i) => value(Math.floor(i / SIDE), i % SIDE));

/** ggml multiplies rows by rows: element (i, j) of the result is row j of A times row i of B. */
function productOn(backend: Pick<Backend, "ggml" | "at">): Float32Array {
  const { ggml } = backend;
  const context = newContext(ggml, 4, NODES);
  const square = () => newTensor(ggml, context, TYPE.F32, [SIDE, SIDE]);
  const [a, b] = [square(), square()];
  const product = must(ggml.ggml_mul_mat(context.at, a, b), "product") as Ptr;
  const sum = must(ggml.ggml_add(context.at, product, a), "sum") as Ptr;
  const graph = must(ggml.ggml_new_graph_custom(context.at, NODES, false), "graph");
  ggml.ggml_build_forward_expand(graph, sum);
  const buffer = allocate(backend, context);
  try {
    putBytes(ggml, a, matrix(left));
    putBytes(ggml, b, matrix(right));
    if (ggml.ggml_backend_graph_compute(backend.at, graph) !== 0) throw new Error("The device could not compute");
    return getFloats(ggml, sum);
  } finally {
    buffer.free();
    context.free();
  }
}

function firstDifference(got: Float32Array): string | null {
  for (let row = 0; row < SIDE; row++)
    for (let column = 0; column < SIDE; column++) {
      let want = left(row, column);
      for (let k = 0; k < SIDE; k++) want += left(column, k) * right(row, k);
      const value = got[row * SIDE + column];
      if (value !== want) return `${value} instead of ${want} at row ${row}, column ${column}`;
    }
  return null;
}
