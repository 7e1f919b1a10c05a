/** The trainer's own CUDA kernels, compiled for the processor: see test/native/emulation. Products are plain loops. */
import { dlopen, ptr } from "bun:ffi";
import { Arguments } from "../../../src/native/cuda/driver.ts";
import { type Kernels, SIGNATURES, sharedBytes } from "../../../src/native/cuda/kernels.ts";
import { cstr } from "../../../src/native/ffi.ts";
import { buildEmulation } from "../../native/emulation/device.ts";
import { plainKernels } from "./plain_kernels.ts";

const SYMBOLS = { emulate: { args: ["ptr", "u32", "u32", "u32", "u32", "u32", "ptr"], returns: "i32" } } as const;

export function openEmulatedKernels(): Kernels {
  const { symbols } = dlopen(buildEmulation("trainer.so", [], "trainer.inc"), SYMBOLS);
  return {
    ...plainKernels,
    launch(name, { grid, threads, shared = sharedBytes(name) }, values) {
      const packed = new Arguments(SIGNATURES[name]);
      packed.set(values);
      const code = symbols.emulate(ptr(cstr(name)), ...grid, threads, shared, packed.packedAt);
      if (code !== 0) throw new Error(`the emulation does not know the kernel ${name}`);
    },
  };
}
