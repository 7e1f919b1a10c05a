/**
 * Matrix products on an NVIDIA GPU by cuBLAS, which the CUDA library of ggml depends on. Matrices are row-major: `at` is
 * the address of the first element, `stride` the number of elements from row to row. Inputs are BF16; sums are F32.
 */
import { dlopen, ptr } from "bun:ffi";
import type { Ptr } from "../ffi.ts";
import { OutOfMemory } from "../ggml/out_of_memory.ts";

const P = "ptr";
const I = "i32";

const BLAS = {
  cublasCreate_v2: { args: [P], returns: I },
  cublasDestroy_v2: { args: [P], returns: I },
  cublasGemmEx: { args: [P, I, I, I, I, I, P, P, I, I, P, I, I, P, P, I, I, I, I], returns: I },
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

export type Products = ReturnType<typeof openProducts>;

export function openProducts() {
  const { symbols: blas } = dlopen("libcublas.so.13", BLAS);
  const slot = new BigUint64Array(new ArrayBuffer(8));
  if (blas.cublasCreate_v2(ptr(slot)) !== 0) throw new Error("cuBLAS cannot be started on this GPU");
  const handle = Number(slot[0]) as Ptr;
  const factors = new Float32Array(new ArrayBuffer(8)); // for the product, and for the previous content
  const byAt = ptr(factors);
  const contentAt = ptr(factors, 4);

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
    if (code === NO_MEMORY) throw new OutOfMemory("The GPU is out of memory for a matrix product");
    if (code !== 0) throw new Error(`cuBLAS could not multiply ${rows} × ${depth} by ${depth} × ${columns}: ${code}`);
  };
  return {
    /** a · bᵀ */
    byRows: (a: Matrix, b: Matrix, to: Into, of: Extent) => multiply([TURNED, STRAIGHT], a, b, { to, of }),
    /** a · b */
    plain: (a: Matrix, b: Matrix, to: Into, of: Extent) => multiply([STRAIGHT, STRAIGHT], a, b, { to, of }),
    /** aᵀ · b */
    byColumns: (a: Matrix, b: Matrix, to: Into, of: Extent) => multiply([STRAIGHT, TURNED], a, b, { to, of }),
    close: () => blas.cublasDestroy_v2(handle),
  };
}
