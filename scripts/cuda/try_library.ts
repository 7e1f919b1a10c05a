/** scripts/cuda/try_library DIR: see there. */
import { dlopen, ptr } from "bun:ffi";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { computeOnGpus } from "../../src/native/cuda/selftest.ts";
import { openGgml } from "../../src/native/ggml/symbols.ts";
import { llamaLibraries } from "../../src/native/llama/libraries.ts";
import { whyNoCuda } from "../../src/native/probe.ts";
import { buildShim } from "../bundle/shim.ts";

const dir = resolve(process.argv[2] ?? ".");
buildShim(dirname(dirname(import.meta.dir)));
const work = mkdtempSync(join(tmpdir(), "verk-cuda-"));
try {
  const ggml = openGgml(work, { cuda: false }); // the processor's libraries, which the CUDA library joins
  const { ggml_backend_load } = dlopen(llamaLibraries(work, { cuda: false }).files.ggml, {
    ggml_backend_load: { args: ["ptr"], returns: "ptr" },
  }).symbols;
  ggml_backend_load(ptr(new TextEncoder().encode(`${join(dir, "libggml-cuda.so")}\0`)));
  const devices = computeOnGpus(ggml);
  if (devices.length === 0) throw new Error(whyNoCuda(dir));
  console.log(devices.map(({ name, description }) => `${name}: ${description}`).join("\n"));
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
} finally {
  rmSync(work, { recursive: true, force: true });
}
