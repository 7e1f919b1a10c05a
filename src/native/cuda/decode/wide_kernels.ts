/**
 * Opens cuBLAS and a kernel of the trainer in the stream of a decoding device. Passes of many rows use them beside the
 * kernels of decoding. Opening takes time and memory, so that is done when a pass first needs it.
 */

import { readFileSync } from "node:fs";
import { errorText } from "../../../lib/error_text.ts";
import { MIB } from "../../../lib/units.ts";
import type { Ptr } from "../../ffi.ts";
import { Arguments, type Driver } from "../driver.ts";
import { type ExactProducts, hasExactProducts, openExactProducts } from "../exact_products.ts";
import { openProducts } from "../kernel_products.ts";
import { SIGNATURES } from "../kernels.ts";
import type { WideKernel, WideKernels } from "./kernels.ts";

const NAMES: readonly WideKernel[] = ["gate_up"];
const WORKSPACE_BYTES = 32 * MIB; // what cuBLAS takes itself on Hopper

type Opening = {
  driver: Driver;
  stream: number;
  /** verk-kernels.fatbin; null if this build has none. */
  path: string | null;
  allocate: (bytes: number) => number;
  free: (at: number) => void;
};

/** `get` returns null where this cannot be opened; the kernels of decoding then compute everything. */
export function lazyWideKernels(opening: Opening) {
  let opened: ReturnType<typeof open> | null | undefined;
  let exact: ExactProducts | null = null;
  return {
    get(): WideKernels | null {
      if (opened !== undefined || opening.path === null) return opened ?? null;
      try {
        opened = open(opening, opening.path);
      } catch (error) {
        const why = errorText(error);
        process.stderr.write(`decoding many rows continues without cuBLAS, which is slower: ${why}\n`);
        opened = null;
      }
      return opened;
    },
    /** Products by cublasLt in one piece, where their bits do not depend on the number of rows. */
    exact(): WideKernels | null {
      const all = hasExactProducts(opening.driver.major) ? this.get() : null;
      if (!all) return null;
      exact ??= openExactProducts(opening.stream as Ptr);
      return { ...all, products: { byRows: exact.byRows, byRowsOfBoth: inTurn(exact) } };
    },
    close() {
      exact?.close();
      exact = null;
      opened?.close();
      opened = undefined;
    },
  };
}

const inTurn =
  ({ byRows }: ExactProducts): WideKernels["products"]["byRowsOfBoth"] =>
  (a, [b, c], to, of) => {
    byRows(a, b, to, of);
    byRows(a, c, { ...to, at: to.at + of.columns * 2 }, of);
  };

function open({ driver, stream, allocate, free }: Opening, path: string) {
  const kernels = driver.load(readFileSync(path), NAMES, () => 0);
  const workspace = allocate(WORKSPACE_BYTES);
  const { close, ...products } = startProducts();
  const packed = new Map(NAMES.map((name) => [name, new Arguments(SIGNATURES[name])]));

  function startProducts() {
    try {
      return openProducts({ stream, workspace, workspaceBytes: WORKSPACE_BYTES });
    } catch (error) {
      free(workspace);
      throw error;
    }
  }
  return {
    products,
    /** These kernels do not wait for the one before, so they are not started early. */
    launch(name: WideKernel, { grid, threads }: Parameters<WideKernels["launch"]>[1], values: readonly number[]) {
      const of = packed.get(name) as Arguments;
      of.set(values);
      driver.launch(kernels[name], grid, threads, { shared: 0, extra: of.extra, stream: stream as Ptr });
    },
    close() {
      close();
      free(workspace);
    },
  };
}
