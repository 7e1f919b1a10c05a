/**
 * Self-tests of the native libraries: each does real work and checks the result. They run in a child process
 * (`verk worker probe <kind> [data dir]`), because a library that does not fit the host may end the process.
 */
import { CString, dlopen, ptr } from "bun:ffi";
import { join } from "node:path";
import { errorText } from "../lib/error_text.ts";
import { UsageError } from "../lib/errors.ts";
import { explainLoad } from "./bundle/addon.ts";
import { compiled } from "./bundle/embedded.ts";
import { discardGroup, verifyGroup } from "./bundle/extract.ts";
import { computeOnGpus } from "./cuda/selftest.ts";
import { openGgml } from "./ggml/symbols.ts";
import { llamaLibraries } from "./llama/libraries.ts";
import { checkLayouts } from "./llama/params.ts";
import { loadOnnx } from "./onnx.ts";
import { loadSharp } from "./sharp.ts";
import { llamaCalls, openShim } from "./shim/shim.ts";
import { tinyOnnx } from "./tiny_onnx.ts";

const PROBES = ["sharp", "onnx", "llama", "cuda"] as const;
export type ProbeKind = (typeof PROBES)[number];
export type ProbeReport = {
  kind: ProbeKind;
  ok: boolean;
  /** Versions and devices. */
  detail: Record<string, unknown>;
  error?: string;
  duration_ms: number;
};

const TESTS = { sharp: probeSharp, onnx: probeOnnx, llama: probeLlama, cuda: probeCuda };

/** Never throws for a failing library. The parent handles a crash of the process. */
async function probeNative(kind: ProbeKind, dataDir: string): Promise<ProbeReport> {
  const startedAt = performance.now();
  const duration = () => Math.round((performance.now() - startedAt) * 10) / 10;
  try {
    repair(kind, dataDir);
    const detail = await TESTS[kind](dataDir);
    return { kind, ok: true, detail, duration_ms: duration() };
  } catch (error) {
    const message = errorText(error);
    return { kind, ok: false, detail: {}, error: message, duration_ms: duration() };
  }
}

/** Runs in the child: writes one line of JSON to stdout and exits with 0 if the library works, else 1. */
export async function runProbe(kind: string | undefined, dataDir: string = process.cwd()): Promise<void> {
  if (!PROBES.includes(kind as ProbeKind)) throw new UsageError(`worker probe needs one of: ${PROBES.join(", ")}`);
  const report = await probeNative(kind as ProbeKind, dataDir);
  await Bun.write(Bun.stdout, `${JSON.stringify(report)}\n`);
  process.exit(report.ok ? 0 : 1);
}

/** A self-test reads every byte, unlike ordinary use, and replaces a damaged copy. */
function repair(kind: ProbeKind, dataDir: string) {
  if (!compiled) return;
  for (const group of kind === "llama" ? ["llama", "llama-cuda", "shim"] : [kind]) {
    if (verifyGroup(group, dataDir).length > 0) discardGroup(group, dataDir);
  }
}

function expectEqual(what: string, got: readonly number[], want: readonly number[]) {
  if (got.length === want.length && got.every((v, i) => Math.abs(v - want[i]!) < 1e-5)) return;
  throw new Error(`${what}: computed [${got}], expected [${want}]`);
}

async function probeSharp(dataDir: string) {
  const sharp = await loadSharp(dataDir);
  sharp.cache(false);
  const pixels = [255, 0, 0, 0, 255, 0, 0, 0, 255, 16, 32, 48]; // (2, 2, 3)
  const raw = { width: 2, height: 2, channels: 3 } as const;
  for (const encode of ["png", "webp"] as const) {
    const image = await sharp(Uint8Array.from(pixels), { raw })[encode]({ lossless: true }).toBuffer();
    const decoded = await sharp(image).removeAlpha().raw().toBuffer();
    expectEqual(encode, [...decoded], pixels);
  }
  return { sharp: sharp.versions.sharp, vips: sharp.versions.vips };
}

async function probeOnnx(dataDir: string) {
  const ort = await loadOnnx(dataDir);
  const session = await ort.InferenceSession.create(tinyOnnx(), { intraOpNumThreads: 1, interOpNumThreads: 1 });
  const output = await session.run({ X: new ort.Tensor("float32", Float32Array.from([1, 2]), [1, 2]) });
  expectEqual("onnx", Array.from(output["Y"]?.data as Float32Array), [1.5, 1.5, 0]);
  return { onnxruntime: ort.env.versions.node ?? ort.env.versions.common };
}

async function probeLlama(dataDir: string) {
  const { dir, files, cuda } = llamaLibraries(dataDir);
  try {
    const ggml = dlopen(files.ggml, {
      ggml_backend_load_all_from_path: { args: ["ptr"], returns: "void" },
      ggml_backend_dev_count: { args: [], returns: "u64" },
      ggml_backend_dev_get: { args: ["u64"], returns: "ptr" },
    }).symbols;
    const base = dlopen(files.ggmlBase, {
      ggml_backend_dev_name: { args: ["ptr"], returns: "ptr" },
      ggml_backend_dev_description: { args: ["ptr"], returns: "ptr" },
    }).symbols;
    const llama = dlopen(files.llama, {
      llama_print_system_info: { args: [], returns: "ptr" },
      llama_version: { args: [], returns: "ptr" },
    }).symbols;

    ggml.ggml_backend_load_all_from_path(ptr(new TextEncoder().encode(`${dir}\0`)));
    const read = (p: ReturnType<typeof llama.llama_print_system_info>) => (p ? new CString(p).toString() : "");
    checkLayouts(llamaCalls(openShim(dataDir), files.llama), read(llama.llama_version()));
    const devices = Array.from({ length: Number(ggml.ggml_backend_dev_count()) }, (_, i) => {
      const device = ggml.ggml_backend_dev_get(BigInt(i));
      const name = read(base.ggml_backend_dev_name(device));
      return { name, description: read(base.ggml_backend_dev_description(device)) };
    });
    if (devices.length === 0) throw new Error(`no compute backend in ${dir} supports this processor`);
    const cudaError = cuda && !devices.some((d) => d.name.startsWith("CUDA")) ? whyNoCuda(dir) : null;
    return { devices, cuda, cuda_error: cudaError, system: read(llama.llama_print_system_info()) };
  } catch (error) {
    throw explainLoad(error, dir);
  }
}

/** Computes on every card. Needs an executable that includes the CUDA library. */
async function probeCuda(dataDir: string) {
  const { dir, cuda } = llamaLibraries(dataDir);
  if (!cuda) throw new Error("this executable does not include the CUDA library");
  const devices = computeOnGpus(openGgml(dataDir, { cuda: true }));
  if (devices.length === 0) throw new Error(whyNoCuda(dir));
  return { devices };
}

/** ggml skips a backend that cannot be loaded. The dynamic linker tells what is missing. */
export function whyNoCuda(dir: string): string {
  try {
    dlopen(join(dir, "libggml-cuda.so"), { ggml_backend_init: { args: [], returns: "ptr" } });
    return "the CUDA library loads but found no GPU";
  } catch (error) {
    return errorText(error);
  }
}
