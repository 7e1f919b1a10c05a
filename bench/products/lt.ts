/**
 * Products a · bᵀ of row-major BF16 matrices by cublasLt, where the caller chooses the algorithm. Sums are F32 and never
 * split over blocks. An algorithm is the 64 bytes that cublasLt describes it with.
 */
import { dlopen, ptr } from "bun:ffi";
import type { Extent, Queue } from "../../src/native/cuda/kernel_products.ts";
import type { Ptr } from "../../src/native/ffi.ts";

const P = "ptr";
const I = "i32";
const L = "u64";

const LT = {
  cublasLtGetVersion: { args: [], returns: L },
  cublasLtCreate: { args: [P], returns: I },
  cublasLtMatmulDescCreate: { args: [P, I, I], returns: I },
  cublasLtMatmulDescSetAttribute: { args: [P, I, P, L], returns: I },
  cublasLtMatrixLayoutCreate: { args: [P, I, L, L, "i64"], returns: I },
  cublasLtMatrixLayoutDestroy: { args: [P], returns: I },
  cublasLtMatmulPreferenceCreate: { args: [P], returns: I },
  cublasLtMatmulPreferenceSetAttribute: { args: [P, I, P, L], returns: I },
  cublasLtMatmulAlgoGetHeuristic: { args: [P, P, P, P, P, P, P, I, P, P], returns: I },
  cublasLtMatmulAlgoCheck: { args: [P, P, P, P, P, P, P, P], returns: I },
  cublasLtMatmulAlgoConfigGetAttribute: { args: [P, I, P, L, P], returns: I },
  cublasLtMatmul: { args: [P, P, P, P, P, P, P, P, P, P, P, P, P, P, L, P], returns: I },
} as const;

const BF16 = 14;
const F32 = 0;
const SUM_F32 = 68;
const TURNED = 1;
const TRANSA = 3; // CUBLASLT_MATMUL_DESC_TRANSA
const MOST_WORKSPACE = 1; // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
const REDUCTIONS = 3; // CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK; 0 excludes sums in parts
const NONE_FOUND = 15; // CUBLAS_STATUS_NOT_SUPPORTED
const ALGORITHM_BYTES = 64;
const RESULT_BYTES = 96; // the algorithm, its workspace (u64), a status (i32), waves (f32), four reserved i32
/** Attributes of an algorithm in the order of their numbers, with their bytes. */
const SETTINGS = { id: 4, tile: 4, split: 4, sums: 4, swizzle: 4, custom: 4, stages: 4, inner: 2, cluster: 2 };

export type Algorithm = Uint8Array;
export type Lt = ReturnType<typeof openLt>;
type Addresses = { x: number; weights: number; to: number };

export function openLt({ stream, workspace, workspaceBytes }: Queue) {
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
  const word = new Uint32Array(new ArrayBuffer(8)); // also the low half of a u64
  word[0] = TURNED;
  check(lt.cublasLtMatmulDescSetAttribute(product, TRANSA, ptr(word), 4n), "Setting TRANSA");
  word[0] = workspaceBytes;
  check(lt.cublasLtMatmulPreferenceSetAttribute(preference, MOST_WORKSPACE, ptr(word), 8n), "Setting the workspace");
  word[0] = 0;
  check(lt.cublasLtMatmulPreferenceSetAttribute(preference, REDUCTIONS, ptr(word), 4n), "Setting the reductions");
  const factors = new Float32Array(new ArrayBuffer(8)); // for the product, and for the previous content
  factors[0] = 1;
  const layout = (type: number, rows: number, columns: number) =>
    made("cublasLtMatrixLayoutCreate", (to) =>
      lt.cublasLtMatrixLayoutCreate(to, type, BigInt(rows), BigInt(columns), BigInt(rows)),
    );

  return {
    version: Number(lt.cublasLtGetVersion()),

    /** cublasLt is column-major: its matrices are the transposes of ours, and so is their product. */
    productOf({ rows, columns, depth }: Extent, f32: boolean) {
      const [left, right] = [layout(BF16, depth, columns), layout(BF16, depth, rows)];
      const result = layout(f32 ? F32 : BF16, columns, rows);
      const found = new Int32Array(new ArrayBuffer(4));
      return {
        /** At most `most`; the one that cublasLt thinks the fastest comes first. */
        algorithms(most: number): Algorithm[] {
          const results = new Uint8Array(new ArrayBuffer(most * RESULT_BYTES));
          const code = lt.cublasLtMatmulAlgoGetHeuristic(
            ...([handle, product, left, right, result, result, preference] as const),
            ...([most, ptr(results), ptr(found)] as const),
          );
          if (code === NONE_FOUND) return [];
          check(code, "cublasLtMatmulAlgoGetHeuristic");
          const view = new DataView(results.buffer);
          return Array.from({ length: found[0] as number }, (_, i) => i * RESULT_BYTES)
            .filter((at) => view.getInt32(at + ALGORITHM_BYTES + 8, true) === 0)
            .map((at) => new Uint8Array(results.buffer.slice(at, at + ALGORITHM_BYTES)));
        },
        /** Says whether the algorithm computes this product, within the workspace. */
        takes(algorithm: Algorithm): boolean {
          const answer = new BigUint64Array(new ArrayBuffer(RESULT_BYTES));
          const code = lt.cublasLtMatmulAlgoCheck(
            ...([handle, product, left, right, result, result, ptr(algorithm), ptr(answer)] as const),
          );
          return code === 0 && Number(answer[ALGORITHM_BYTES / 8]) <= workspaceBytes;
        },
        run(algorithm: Algorithm, { x, weights, to }: Addresses) {
          const code = lt.cublasLtMatmul(
            ...([handle, product, ptr(factors), weights as Ptr, left, x as Ptr, right, ptr(factors, 4)] as const),
            ...([to as Ptr, result, to as Ptr, result, ptr(algorithm)] as const),
            ...([workspace as Ptr, BigInt(workspaceBytes), stream as Ptr] as const),
          );
          check(code, `cublasLtMatmul of ${rows} × ${depth} by ${depth} × ${columns}`);
        },
        close: () => [left, right, result].forEach((one) => void lt.cublasLtMatrixLayoutDestroy(one)),
      };
    },

    /** The settings of an algorithm, such as `id 66 tile 20 …`, without those that are 0. */
    describe(algorithm: Algorithm): string {
      const written = new BigUint64Array(new ArrayBuffer(8));
      const said = Object.entries(SETTINGS).map(([name, bytes], number) => {
        word[0] = 0;
        const size = BigInt(bytes);
        const code = lt.cublasLtMatmulAlgoConfigGetAttribute(ptr(algorithm), number, ptr(word), size, ptr(written));
        return code !== 0 ? `${name} ?` : word[0] === 0 ? "" : `${name} ${word[0]}`;
      });
      return said.filter((part) => part !== "").join(" ");
    },
  };
}
