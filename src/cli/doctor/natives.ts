import { readdirSync } from "node:fs";
import { join } from "node:path";
import { formatBytes } from "../../lib/bytes.ts";
import { platform } from "../../native/platform/index.ts";
import type { ProbeReport } from "../../native/probe.ts";
import { listGpus } from "../../platform/hardware.ts";
import { NATIVE_KINDS, type NativeKind, probeInChild, versionsOf } from "../native_probe.ts";
import { type Check, fail, ok, type Scene, type Verdict, warn } from "./check.ts";

const LABELS: Record<NativeKind, string> = {
  sharp: "images (sharp)",
  onnx: "detectors (onnx)",
  llama: "language models (llama)",
};

export const nativeChecks: readonly Check[] = [
  ...NATIVE_KINDS.map((kind) => ({ name: LABELS[kind], run: (scene: Scene) => library(kind, scene) })),
  { name: "GPUs", run: gpus },
  { name: "CUDA", run: cuda },
];

const reports = new WeakMap<Scene, Map<NativeKind, Promise<ProbeReport>>>();

/** Once per examination: the CUDA check reads the llama probe too. */
function probe(kind: NativeKind, scene: Scene): Promise<ProbeReport> {
  const known = reports.get(scene) ?? new Map<NativeKind, Promise<ProbeReport>>();
  reports.set(scene, known);
  const report = known.get(kind) ?? probeInChild(kind, scene.probeDir);
  known.set(kind, report);
  return report;
}

async function library(kind: NativeKind, scene: Scene): Promise<Verdict> {
  const report = await probe(kind, scene);
  if (report.ok) return ok(`${versionsOf(report)}, ${Math.round(report.duration_ms)} ms`);
  return fail(
    report.error ?? "the self-test failed",
    "the message says why; this check has unpacked the library anew, so if it stays, report it",
  );
}

async function gpus(): Promise<Verdict> {
  const found = await listGpus();
  if (found.length === 0) return ok("no NVIDIA GPU: everything runs on the CPU");
  const shown = found.map(
    ({ name, memoryTotalMib, driverVersion }) =>
      `${name}, ${formatBytes(memoryTotalMib * 2 ** 20)}, driver ${driverVersion}`,
  );
  return ok(shown.join("; "));
}

const RUNTIME = ["libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13"] as const;
const DRIVER = "libcuda.so.1";

/** Asks the dynamic loader itself, which knows its cache, the default directories and LD_LIBRARY_PATH. */
const loaderFinds = (library: string) =>
  Bun.spawnSync([platform.loader, "--list", library], { stdout: "ignore", stderr: "ignore" }).exitCode === 0;

/** Libraries may also lie beside libggml-cuda.so, which looks there first. */
function besideDir(probeDir: string): string {
  const native = join(probeDir, "native");
  const group = readdirSync(native).find((name) => name.startsWith("llama-cuda-"));
  return join(native, group ?? "llama-cuda-…", `${platform.name}-cuda`);
}

async function cuda(scene: Scene): Promise<Verdict> {
  const report = await probe("llama", scene);
  const count = (await listGpus()).length;
  if (!report.ok) return warn("not known: the llama library does not load", "mend that first");
  if (report.detail["cuda"] !== true) {
    if (count === 0) return ok("this build embeds no CUDA library, and this machine has no NVIDIA GPU");
    const fix = "use a build with CUDA: scripts/build_cuda makes the library, scripts/build --cuda DIR embeds it";
    return warn(`this build embeds no CUDA library: ${count} GPU(s) stay unused`, fix);
  }
  const devices = report.detail["devices"] as { name: string; description: string }[];
  const used = devices.filter(({ name }) => name.startsWith("CUDA"));
  if (used.length > 0) return ok(used.map(({ name, description }) => `${name} ${description}`).join(", "));
  if (count === 0) return ok("this build embeds a CUDA library; this machine has no NVIDIA GPU");

  const dir = besideDir(scene.probeDir);
  const beside = readdirSync(dir);
  const missing = [DRIVER, ...RUNTIME].filter((name) => !beside.includes(name) && !loaderFinds(name));
  return fail(...cudaTrouble(missing, dir));
}

/** Pure: what is wrong and what to do, from what the loader does not find. */
export function cudaTrouble(missing: readonly string[], dir: string): [detail: string, fix: string] {
  if (missing.includes(DRIVER))
    return [
      `${DRIVER} is not found: the NVIDIA driver's user part is missing`,
      "install the NVIDIA driver, R580 or newer; in a container, run it with --gpus all",
    ];
  if (missing.length > 0)
    return [
      `not found: ${missing.join(", ")}`,
      `install the CUDA 13 runtime (NVIDIA's packages cuda-cudart-13-0 and libcublas-13-0), or copy these files into ${dir}`,
    ];
  return [
    "the libraries are found, but no GPU answers: the embedded library has no machine code that this GPU and driver take",
    "update the driver to R580 or newer, or build the library for this GPU: scripts/build_cuda with its architecture (H100 and H200: 90)",
  ];
}
