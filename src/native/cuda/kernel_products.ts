/**
 * Matrix products on an NVIDIA GPU by cuBLAS, which the CUDA library of ggml depends on. Matrices are row-major: `at` is
 * the address of the first element, `stride` the number of elements from row to row. Inputs are BF16; sums are F32.
 */
import { dlopen, ptr } from "bun:ffi";
import type { Ptr } from "../ffi.ts";
import { OutOfMemory } from "../ggml/out_of_memory.ts";

const P = "ptr";
const I = "i32";
const L = "i64";

const BLAS = {
  cublasCreate_v2: { args: [P], returns: I },
  cublasDestroy_v2: { args: [P], returns: I },
  cublasSetStream_v2: { args: [P, P], returns: I },
  cublasSetWorkspace_v2: { args: [P, P, "u64"], returns: I },
  cublasGemmEx: { args: [P, I, I, I, I, I, P, P, I, I, P, I, I, P, P, I, I, I, I], returns: I },
  cublasGemmStridedBatchedEx: {
    args: [P, I, I, I, I, I, P, P, I, I, L, P, I, I, L, P, P, I, I, L, I, I, I],
    returns: I,
  },
} as const;

const TURNED = 1;
const STRAIGHT = 0;
const BF16 = 14;
const F32 = 0;
const SUM_F32 = 68;
const ANY_WAY = -1;
const NO_MEMORY = 3; // CUBLAS_STATUS_ALLOC_FAILED

export type Matrix = { at: number; stride: number };
/** Rows and columns of the result; `depth` is the dimension that is summed over. */
export type Extent = { rows: number; columns: number; depth: number };
/** `by` is a factor for the product; default 1. `adds`: the product is added to what is there. */
export type Into = Matrix & { f32?: boolean; by?: number; adds?: boolean };

/** A stream and memory of the caller: with them, products can be recorded in a graph. */
export type Queue = { stream: number; workspace: number; workspaceBytes: number };

export type Products = ReturnType<typeof openProducts>;

/** Without a queue, work goes to the default stream. */
export function openProducts(queue?: Queue) {
  const { symbols: blas } = dlopen("libcublas.so.13", BLAS);
  const slot = new BigUint64Array(new ArrayBuffer(8));
  if (blas.cublasCreate_v2(ptr(slot)) !== 0) throw new Error("cuBLAS cannot be started on this GPU");
  const handle = Number(slot[0]) as Ptr;
  if (queue) {
    const { stream, workspace, workspaceBytes } = queue;
    const failed =
      blas.cublasSetStream_v2(handle, stream as Ptr) || // takes the workspace away, so it comes first
      blas.cublasSetWorkspace_v2(handle, workspace as Ptr, BigInt(workspaceBytes));
    if (failed !== 0) throw new Error(`cuBLAS does not take the stream: ${failed}`);
  }
  const factors = new Float32Array(new ArrayBuffer(8)); // for the product, and for the previous content
  const byAt = ptr(factors);
  const contentAt = ptr(factors, 4);

  const check = (code: number, { rows, columns, depth }: Extent) => {
    if (code === NO_MEMORY) throw new OutOfMemory("The GPU is out of memory for a matrix product");
    if (code !== 0) throw new Error(`cuBLAS could not multiply ${rows} × ${depth} by ${depth} × ${columns}: ${code}`);
  };

  // cuBLAS is column-major: its matrices are the transposes of ours, and so is their product.
  const multiply = (turned: readonly [number, number], a: Matrix, b: Matrix, { to, of }: { to: Into; of: Extent }) => {
    const { rows, columns, depth } = of;
    const left = [b.at as Ptr, BF16, b.stride] as const;
    const right = [a.at as Ptr, BF16, a.stride] as const;
    const result = [to.at as Ptr, to.f32 ? F32 : BF16, to.stride] as const;
    const sizes = [columns, rows, depth] as const;
    factors[0] = to.by ?? 1; // cuBLAS reads both before the call returns.
    factors[1] = to.adds ? 1 : 0;
    const code = blas.cublasGemmEx(
      handle,
      ...turned,
      ...sizes,
      byAt,
      ...left,
      ...right,
      contentAt,
      ...result,
      SUM_F32,
      ANY_WAY,
    );
    check(code, of);
  };
  const multiplyByBoth = (a: Matrix, [b, c]: readonly [Matrix, Matrix], to: Matrix, of: Extent) => {
    const { rows, columns, depth } = of;
    factors[0] = 1;
    factors[1] = 0;
    const code = blas.cublasGemmStridedBatchedEx(
      handle,
      ...[TURNED, STRAIGHT, columns, rows, depth, byAt],
      ...([b.at as Ptr, BF16, b.stride, BigInt(c.at - b.at) / 2n] as const),
      ...([a.at as Ptr, BF16, a.stride, 0n, contentAt] as const),
      ...([to.at as Ptr, BF16, to.stride, BigInt(columns)] as const),
      ...[2, SUM_F32, ANY_WAY],
    );
    check(code, of);
  };
  return {
    /** a · bᵀ and, beside it, a · cᵀ. The two have one stride. */
    byRowsOfBoth(a: Matrix, [b, c]: readonly [Matrix, Matrix], to: Matrix, of: Extent) {
      if (c.at > b.at) return multiplyByBoth(a, [b, c], to, of); // a stride of matrices must not be negative
      multiply([TURNED, STRAIGHT], a, b, { to, of });
      multiply([TURNED, STRAIGHT], a, c, { to: { at: to.at + of.columns * 2, stride: to.stride }, of });
    },
    /** a · bᵀ */
    byRows: (a: Matrix, b: Matrix, to: Into, of: Extent) => multiply([TURNED, STRAIGHT], a, b, { to, of }),
    /** a · b */
    plain: (a: Matrix, b: Matrix, to: Into, of: Extent) => multiply([STRAIGHT, STRAIGHT], a, b, { to, of }),
    /** aᵀ · b */
    byColumns: (a: Matrix, b: Matrix, to: Into, of: Extent) => multiply([STRAIGHT, TURNED], a, b, { to, of }),
    close: () => blas.cublasDestroy_v2(handle),
  };
}
