/** cublasLt, for products a · bᵀ of row-major BF16 matrices. Sums are F32 and never divided over blocks. */
import { dlopen, ptr } from "bun:ffi";
import type { Ptr } from "../ffi.ts";
import type { Extent } from "./kernel_products.ts";

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
const NONE_FOUND = 15; // CUBLAS_STATUS_NOT_SUPPORTED

export const LIBRARY = "libcublasLt.so.13";
export const ALGORITHM_BYTES = 64;
export const RESULT_BYTES = 96; // the algorithm, its workspace (u64), a status (i32), waves (f32), four reserved i32

/** The 64 bytes that cublasLt describes an algorithm with. */
export type Algorithm = Uint8Array;
/** A product as cublasLt sees it. */
export type Layouts = { of: Extent; left: Ptr; right: Ptr; result: Ptr };
type Addresses = { a: number; b: number; to: number };
/** Without a stream, work goes to the default one. */
type Queue = { stream: Ptr | null; workspace: Ptr | null; workspaceBytes: number };

export function openCublasLt() {
  const { symbols: lt } = dlopen(LIBRARY, LT);
  const check = (code: number, what: string) => {
    if (code !== 0) throw new Error(`${what} failed: ${code}`);
  };
  const written = (what: string, call: (to: Ptr) => number): Ptr => {
    const slot = new BigUint64Array(new ArrayBuffer(8));
    check(call(ptr(slot)), what);
    return Number(slot[0]) as Ptr;
  };
  const handle = written("cublasLtCreate", lt.cublasLtCreate);
  const product = written("cublasLtMatmulDescCreate", (to) => lt.cublasLtMatmulDescCreate(to, SUM_F32, F32));
  const preference = written("cublasLtMatmulPreferenceCreate", lt.cublasLtMatmulPreferenceCreate);
  const word = new Uint32Array(new ArrayBuffer(8)); // also the low half of a u64
  const prefer = (attribute: number, value: number, bytes: 4 | 8 = 4) => {
    word[0] = value;
    const code = lt.cublasLtMatmulPreferenceSetAttribute(preference, attribute, ptr(word), BigInt(bytes));
    check(code, "A preference of cublasLt");
  };
  word[0] = TURNED;
  check(lt.cublasLtMatmulDescSetAttribute(product, TRANSA, ptr(word), 4n), "A product of cublasLt");
  prefer(REDUCTIONS, 0);
  const factors = new Float32Array(new ArrayBuffer(8)); // for the product, and for the previous content
  factors[0] = 1;
  const layout = (type: number, rows: number, columns: number, stride: number) =>
    written("cublasLtMatrixLayoutCreate", (to) =>
      lt.cublasLtMatrixLayoutCreate(to, type, BigInt(rows), BigInt(columns), BigInt(stride)),
    );

  return {
    handle,
    product,
    prefer,
    /**
     * `strides`: of a, b and the result. cublasLt is column-major: its matrices are the transposes of ours, and so is
     * their product.
     */
    layouts(of: Extent, [a, b, to]: readonly [number, number, number], f32: boolean): Layouts {
      const [left, right] = [layout(BF16, of.depth, of.columns, b), layout(BF16, of.depth, of.rows, a)];
      return { of, left, right, result: layout(f32 ? F32 : BF16, of.columns, of.rows, to) };
    },
    forget({ left, right, result }: Layouts) {
      for (const each of [left, right, result]) lt.cublasLtMatrixLayoutDestroy(each);
    },
    /** At most `most`; the one that cublasLt thinks the fastest comes first. */
    algorithms({ left, right, result }: Layouts, most: number): Algorithm[] {
      const results = new Uint8Array(new ArrayBuffer(most * RESULT_BYTES));
      const count = new Int32Array(new ArrayBuffer(4));
      const code = lt.cublasLtMatmulAlgoGetHeuristic(
        ...([handle, product, left, right, result, result, preference] as const),
        ...([most, ptr(results), ptr(count)] as const),
      );
      if (code === NONE_FOUND) return [];
      check(code, "cublasLtMatmulAlgoGetHeuristic");
      const view = new DataView(results.buffer);
      return Array.from({ length: count[0] as number }, (_, i) => i * RESULT_BYTES)
        .filter((at) => view.getInt32(at + ALGORITHM_BYTES + 8, true) === 0)
        .map((at) => results.slice(at, at + ALGORITHM_BYTES));
    },
    multiply({ of, left, right, result }: Layouts, algorithm: Algorithm, { a, b, to }: Addresses, queue: Queue) {
      const code = lt.cublasLtMatmul(
        ...([handle, product, ptr(factors), b as Ptr, left, a as Ptr, right, ptr(factors, 4)] as const),
        ...([to as Ptr, result, to as Ptr, result, ptr(algorithm)] as const),
        ...([queue.workspace, BigInt(queue.workspaceBytes), queue.stream] as const),
      );
      check(code, `cublasLtMatmul of ${of.rows} × ${of.depth} by ${of.depth} × ${of.columns}`);
    },
    close() {
      lt.cublasLtMatmulPreferenceDestroy(preference);
      lt.cublasLtMatmulDescDestroy(product);
      lt.cublasLtDestroy(handle);
    },
  };
}
