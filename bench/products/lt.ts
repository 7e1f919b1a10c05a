/** Products by cublasLt, where the caller chooses the algorithm. */
import { dlopen, ptr } from "bun:ffi";
import {
  ALGORITHM_BYTES,
  type Algorithm,
  LIBRARY,
  openCublasLt,
  RESULT_BYTES,
} from "../../src/native/cuda/cublaslt.ts";
import type { Extent, Queue } from "../../src/native/cuda/kernel_products.ts";
import type { Ptr } from "../../src/native/ffi.ts";

const P = "ptr";
const I = "i32";
const L = "u64";

const MORE = {
  cublasLtGetVersion: { args: [], returns: L },
  cublasLtMatmulAlgoCheck: { args: [P, P, P, P, P, P, P, P], returns: I },
  cublasLtMatmulAlgoConfigGetAttribute: { args: [P, I, P, L, P], returns: I },
} as const;

const MOST_WORKSPACE = 1; // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
/** Attributes of an algorithm in the order of their numbers, with their bytes. */
const SETTINGS = { id: 4, tile: 4, split: 4, sums: 4, swizzle: 4, custom: 4, stages: 4, inner: 2, cluster: 2 };

export type Lt = ReturnType<typeof openLt>;
type Addresses = { x: number; weights: number; to: number };

export function openLt({ stream, workspace, workspaceBytes }: Queue) {
  const lt = openCublasLt();
  const { symbols: more } = dlopen(LIBRARY, MORE);
  lt.prefer(MOST_WORKSPACE, workspaceBytes, 8);
  const queue = { stream: stream as Ptr, workspace: workspace as Ptr, workspaceBytes };

  return {
    version: Number(more.cublasLtGetVersion()),

    productOf(of: Extent, f32: boolean) {
      const layouts = lt.layouts(of, [of.depth, of.depth, of.columns], f32);
      const { left, right, result } = layouts;
      return {
        algorithms: (most: number) => lt.algorithms(layouts, most),
        /** Says whether the algorithm computes this product, within the workspace. */
        takes(algorithm: Algorithm): boolean {
          const answer = new BigUint64Array(new ArrayBuffer(RESULT_BYTES));
          const code = more.cublasLtMatmulAlgoCheck(
            ...([lt.handle, lt.product, left, right, result, result, ptr(algorithm), ptr(answer)] as const),
          );
          return code === 0 && Number(answer[ALGORITHM_BYTES / 8]) <= workspaceBytes;
        },
        run(algorithm: Algorithm, { x, weights, to }: Addresses) {
          lt.multiply(layouts, algorithm, { a: x, b: weights, to }, queue);
        },
        close: () => lt.forget(layouts),
      };
    },

    /** The settings of an algorithm, such as `id 66 tile 20 …`, without those that are 0. */
    describe(algorithm: Algorithm): string {
      const word = new Uint32Array(new ArrayBuffer(8));
      const written = new BigUint64Array(new ArrayBuffer(8));
      const said = Object.entries(SETTINGS).map(([name, bytes], number) => {
        word[0] = 0;
        const size = BigInt(bytes);
        const code = more.cublasLtMatmulAlgoConfigGetAttribute(ptr(algorithm), number, ptr(word), size, ptr(written));
        return code !== 0 ? `${name} ?` : word[0] === 0 ? "" : `${name} ${word[0]}`;
      });
      return said.filter((part) => part !== "").join(" ");
    },
  };
}
