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
  const { driver, stream, path } = opening;
  const kernels = once(() => (path === null ? null : openKernels(opening, path)));
  const cublas = once(() => openCublas(opening));
  const exact = once(() => openExactProducts(stream as Ptr));
  return {
    get(): WideKernels | null {
      const launch = kernels.get();
      const products = launch && cublas.get();
      return launch && products ? { launch, products } : null;
    },
    /** Products by cublasLt in one piece, where their bits do not depend on the number of rows. */
    exact(): WideKernels | null {
      const launch = hasExactProducts(driver.major) ? kernels.get() : null;
      const products = launch && exact.get();
      return launch && products && { launch, products: { byRows: products.byRows, byRowsOfBoth: inTurn(products) } };
    },
    close() {
      exact.take()?.close();
      cublas.take()?.close();
      kernels.take();
    },
  };
}

/** Opens something when it is first needed. Null: it cannot be opened, which one line on stderr says. */
function once<T>(open: () => T | null) {
  let opened: T | null | undefined;
  return {
    get(): T | null {
      if (opened !== undefined) return opened;
      try {
        opened = open();
      } catch (error) {
        const why = errorText(error);
        process.stderr.write(`decoding many rows continues without cuBLAS, which is slower: ${why}\n`);
        opened = null;
      }
      return opened;
    },
    take(): T | null {
      const taken = opened ?? null;
      opened = undefined;
      return taken;
    },
  };
}

const inTurn =
  ({ byRows }: ExactProducts): WideKernels["products"]["byRowsOfBoth"] =>
  (a, [b, c], to, of) => {
    byRows(a, b, to, of);
    byRows(a, c, { ...to, at: to.at + of.columns * 2 }, of);
  };

/** These kernels do not wait for the one before, so they are not started early. */
function openKernels({ driver, stream }: Opening, path: string): WideKernels["launch"] {
  const kernels = driver.load(readFileSync(path), NAMES, () => 0);
  const packed = new Map(NAMES.map((name) => [name, new Arguments(SIGNATURES[name])]));
  return (name, { grid, threads }, values) => {
    const of = packed.get(name) as Arguments;
    of.set(values);
    driver.launch(kernels[name], grid, threads, { shared: 0, extra: of.extra, stream: stream as Ptr });
  };
}

function openCublas({ stream, allocate, free }: Opening) {
  const workspace = allocate(WORKSPACE_BYTES);
  try {
    const { close, ...products } = openProducts({ stream, workspace, workspaceBytes: WORKSPACE_BYTES });
    return {
      ...products,
      close() {
        close();
        free(workspace);
      },
    };
  } catch (error) {
    free(workspace);
    throw error;
  }
}
