/** Decodes frozen matrices of any type to BF16, row by row, with ggml on the device itself. */

import { must } from "../../../../native/ffi.ts";
import {
  allocate,
  type Backend,
  newContext,
  newTensor,
  OutOfMemory,
  type Ptr,
  putBytes,
  TYPE,
} from "../../../../native/ggml/ggml.ts";
import { shapeOf, typeOf } from "../../../../native/ggml/symbols.ts";

const ROWS = 1024; // rows at once; they are F32 in between

/** False for F32: a model in F32 should be computed in F32. */
export function decodesToBf16(backend: Backend, tensor: Ptr): boolean {
  const type = typeOf(tensor);
  if (type === TYPE.BF16) return true;
  if (type === TYPE.F32) return false;
  const { ggml } = backend;
  const context = newContext(ggml, 4);
  const ids = newTensor(ggml, context, TYPE.I32, [1]);
  const rows = must(ggml.ggml_get_rows(context.at, tensor, ids), "rows");
  const supported = ggml.ggml_backend_supports_op(backend.at, rows);
  context.free();
  return supported;
}

/** Target of rows: element `first` of a BF16 tensor, and `stride` elements from each row to the next. */
export type Rows = { tensor: Ptr; first: number; stride: number };

export function decodeRows(backend: Backend, from: Ptr, to: Rows) {
  const { ggml } = backend;
  const [columns, rows] = shapeOf(from);
  const fixed = newContext(ggml, 1);
  const ids = newTensor(ggml, fixed, TYPE.I32, [Math.min(ROWS, rows)]);
  const held = allocate(backend, fixed);
  const allocator = must(ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(backend.at)), "allocator");
  try {
    for (let row = 0; row < rows; row += ROWS) {
      const count = Math.min(ROWS, rows - row);
      putBytes(
        ggml,
        ids,
        Int32Array.from({ length: count }, (_, i) => row + i),
      );
      const work = newContext(ggml, 8, 8);
      const graph = must(ggml.ggml_new_graph_custom(work.at, 8, false), "graph");
      const some = ggml.ggml_view_4d(work.at, ids, count, 1, 1, 1, count * 4, count * 4, count * 4, 0);
      const values = ggml.ggml_get_rows(work.at, from, some);
      const [step, at] = [to.stride * 2, (to.first + row * to.stride) * 2]; // in bytes
      const place = ggml.ggml_view_4d(work.at, to.tensor, columns, count, 1, 1, step, step * count, step * count, at);
      ggml.ggml_build_forward_expand(graph, must(ggml.ggml_cpy(work.at, values, place), "copy"));
      const fits = ggml.ggml_gallocr_alloc_graph(allocator, graph);
      const done = fits && ggml.ggml_backend_graph_compute(backend.at, graph) === 0;
      work.free();
      if (!fits) throw new OutOfMemory("The device has not enough memory for the weights");
      if (!done) throw new Error("The device could not decode a matrix");
    }
  } finally {
    ggml.ggml_gallocr_free(allocator);
    held.free();
    fixed.free();
  }
}
