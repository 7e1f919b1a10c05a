/**
 * Products a · bᵀ of row-major BF16 matrices by cublasLt, whose sums are never divided over blocks. On a GPU of compute
 * capability 9 the bits of a row then do not depend on the number of rows: all such algorithms sum in one order
 * (bench/gpu_rows.ts measures it). Of other GPUs that is not known, so they have none of these products.
 */
import type { Ptr } from "../ffi.ts";
import { type Algorithm, type Layouts, openCublasLt } from "./cublaslt.ts";
import type { Extent, Into, Matrix } from "./kernel_products.ts";

const ALIGNMENTS = [5, 6, 7, 8]; // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_…_BYTES of both operands, of content and result
const ALIGNMENT = 16; // bytes; without it, addresses would have to be multiples of 256
const MOST_PLANS = 4096;

const MAJOR = 9; // of the GPUs that were measured
export const hasExactProducts = (major: number) => major === MAJOR;

export type ExactProducts = ReturnType<typeof openExactProducts>;

/** Without a stream, work goes to the default one. No algorithm of these needs a workspace. */
export function openExactProducts(stream: Ptr | null = null) {
  const lt = openCublasLt();
  for (const attribute of ALIGNMENTS) lt.prefer(attribute, ALIGNMENT);
  const queue = { stream, workspace: null, workspaceBytes: 0 };

  type Plan = { layouts: Layouts; algorithm: Algorithm };
  const plans = new Map<string, Plan>();
  const forget = () => {
    for (const { layouts } of plans.values()) lt.forget(layouts);
    plans.clear();
  };

  function planned(of: Extent, strides: readonly [number, number, number], f32: boolean): Plan {
    const { rows, columns, depth } = of;
    const [a, b, to] = strides;
    const key = `${rows} ${columns} ${depth} ${a} ${b} ${to} ${f32}`;
    const stored = plans.get(key);
    if (stored) return stored;
    if (plans.size >= MOST_PLANS) forget();
    const layouts = lt.layouts(of, strides, f32);
    const [algorithm] = lt.algorithms(layouts, 1);
    if (!algorithm)
      throw new Error(`cublasLt has no way to multiply ${rows} × ${depth} by ${depth} × ${columns} in one piece`);
    const plan = { layouts, algorithm };
    plans.set(key, plan);
    return plan;
  }

  return {
    byRows(a: Matrix, b: Matrix, to: Omit<Into, "by" | "adds">, of: Extent) {
      const { layouts, algorithm } = planned(of, [a.stride, b.stride, to.stride], to.f32 ?? false);
      lt.multiply(layouts, algorithm, { a: a.at, b: b.at, to: to.at }, queue);
    },
    close() {
      forget();
      lt.close();
    },
  };
}
