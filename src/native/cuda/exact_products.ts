/**
 * Products a · bᵀ of row-major BF16 matrices by cublasLt, whose sums are never divided over blocks. On a GPU of compute
 * capability 9 the bits of a row then do not depend on the number of rows: all such algorithms sum in one order
 * (bench/gpu_rows.ts measures it). Of other GPUs that is not known, so they have none of these products.
 */
import { dlopen, ptr } from "bun:ffi";
import type { Ptr } from "../ffi.ts";
import type { Extent, Into, Matrix } from "./kernel_products.ts";

const P = "ptr";
const I = "i32";
const L = "u64";

const LT = {
  cublasLtCreate: { args: [P], returns: I },
  cublasLtDestroy: { args: [P], returns: I },
  cublasLtMatmulDescCreate: { args: [P, I, I], returns: I },
  cublasLtMatmulDescDestroy: { args: [P], returns: I },
  cublasLtMatmulDescSetAttribute: { args: [P, I, P, L], returns: I },
  cublasLtMatrixLayoutCreate: { args: [P, I, L, L, "i64"], returns: I },
  cublasLtMatrixLayoutDestroy: { args: [P], returns: I },
  cublasLtMatmulPreferenceCreate: { args: [P], returns: I },
  cublasLtMatmulPreferenceDestroy: { args: [P], returns: I },
  cublasLtMatmulPreferenceSetAttribute: { args: [P, I, P, L], returns: I },
  cublasLtMatmulAlgoGetHeuristic: { args: [P, P, P, P, P, P, P, I, P, P], returns: I },
  cublasLtMatmul: { args: [P, P, P, P, P, P, P, P, P, P, P, P, P, P, L, P], returns: I },
} as const;

const BF16 = 14;
const F32 = 0;
const SUM_F32 = 68;
const TURNED = 1;
const TRANSA = 3; // CUBLASLT_MATMUL_DESC_TRANSA
const REDUCTIONS = 3; // CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK; 0 excludes sums in parts
const ALIGNMENTS = [5, 6, 7, 8]; // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_…_BYTES of both operands, of content and result
const ALIGNMENT = 16; // bytes; without it, addresses would have to be multiples of 256
const ALGORITHM_BYTES = 64;
const RESULT_BYTES = 96; // the algorithm, its workspace, a status, waves, four reserved numbers
const MOST_PLANS = 4096;

const MAJOR = 9; // of the GPUs that were measured
export const hasExactProducts = (major: number) => major === MAJOR;

export type ExactProducts = ReturnType<typeof openExactProducts>;

/** Without a stream, work goes to the default one. No algorithm of these needs a workspace. */
export function openExactProducts(stream: Ptr | null = null) {
  const { symbols: lt } = dlopen("libcublasLt.so.13", LT);
  const check = (code: number, what: string) => {
    if (code !== 0) throw new Error(`${what} failed: ${code}`);
  };
  const made = (what: string, call: (to: Ptr) => number): Ptr => {
    const slot = new BigUint64Array(new ArrayBuffer(8));
    check(call(ptr(slot)), what);
    return Number(slot[0]) as Ptr;
  };
  const handle = made("cublasLtCreate", lt.cublasLtCreate);
  const product = made("cublasLtMatmulDescCreate", (to) => lt.cublasLtMatmulDescCreate(to, SUM_F32, F32));
  const preference = made("cublasLtMatmulPreferenceCreate", lt.cublasLtMatmulPreferenceCreate);
  const word = new Uint32Array(new ArrayBuffer(8));
  const prefer = (attribute: number, value: number) => {
    word[0] = value;
    check(lt.cublasLtMatmulPreferenceSetAttribute(preference, attribute, ptr(word), 4n), "A preference of cublasLt");
  };
  word[0] = TURNED;
  check(lt.cublasLtMatmulDescSetAttribute(product, TRANSA, ptr(word), 4n), "A product of cublasLt");
  prefer(REDUCTIONS, 0);
  for (const attribute of ALIGNMENTS) prefer(attribute, ALIGNMENT);
  const factors = new Float32Array(new ArrayBuffer(8)); // for the product, and for the previous content
  factors[0] = 1;
  const layout = (type: number, rows: number, columns: number, stride: number) =>
    made("cublasLtMatrixLayoutCreate", (to) =>
      lt.cublasLtMatrixLayoutCreate(to, type, BigInt(rows), BigInt(columns), BigInt(stride)),
    );

  type Plan = { left: Ptr; right: Ptr; result: Ptr; algorithm: Uint8Array };
  const plans = new Map<string, Plan>();
  const forget = () => {
    for (const { left, right, result } of plans.values())
      for (const each of [left, right, result]) lt.cublasLtMatrixLayoutDestroy(each);
    plans.clear();
  };

  // cublasLt is column-major: its matrices are the transposes of ours, and so is their product.
  function planned(
    { rows, columns, depth }: Extent,
    [a, b, to]: readonly [number, number, number],
    f32: boolean,
  ): Plan {
    const key = `${rows} ${columns} ${depth} ${a} ${b} ${to} ${f32}`;
    const known = plans.get(key);
    if (known) return known;
    if (plans.size >= MOST_PLANS) forget();
    const [left, right] = [layout(BF16, depth, columns, b), layout(BF16, depth, rows, a)];
    const result = layout(f32 ? F32 : BF16, columns, rows, to);
    const answer = new Uint8Array(new ArrayBuffer(RESULT_BYTES));
    const found = new Int32Array(new ArrayBuffer(4));
    const code = lt.cublasLtMatmulAlgoGetHeuristic(
      ...([handle, product, left, right, result, result, preference] as const),
      ...([1, ptr(answer), ptr(found)] as const),
    );
    if (code !== 0 || found[0] !== 1)
      throw new Error(
        `cublasLt has no way to multiply ${rows} × ${depth} by ${depth} × ${columns} in one piece: ${code}`,
      );
    const plan = { left, right, result, algorithm: answer.slice(0, ALGORITHM_BYTES) };
    plans.set(key, plan);
    return plan;
  }

  return {
    byRows(a: Matrix, b: Matrix, to: Omit<Into, "by" | "adds">, of: Extent) {
      const { left, right, result, algorithm } = planned(of, [a.stride, b.stride, to.stride], to.f32 ?? false);
      const code = lt.cublasLtMatmul(
        ...([handle, product, ptr(factors), b.at as Ptr, left, a.at as Ptr, right, ptr(factors, 4)] as const),
        ...([to.at as Ptr, result, to.at as Ptr, result, ptr(algorithm), null, 0n, stream] as const),
      );
      check(code, `cublasLtMatmul of ${of.rows} × ${of.depth} by ${of.depth} × ${of.columns}`);
    },
    close() {
      forget();
      lt.cublasLtMatmulPreferenceDestroy(preference);
      lt.cublasLtMatmulDescDestroy(product);
      lt.cublasLtDestroy(handle);
    },
  };
}
