/** Checks for NVIDIA cards, and that the CUDA library of this executable computes on them. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { formatBytes } from "../../lib/bytes.ts";
import { groups } from "../../native/bundle/embedded.ts";
import { platform } from "../../native/platform/index.ts";
import type { ProbeReport } from "../../native/probe.ts";
import { findGpus, type GpuPresence } from "../../platform/machine/gpu_presence.ts";
import { probeInChild } from "../native_probe.ts";
import { type Check, fail, ok, type Scene, type Verdict, warn } from "./check.ts";
import { type GpuFacts, unusedGpu } from "./gpu_advice.ts";

export const gpuChecks: readonly Check[] = [
  { name: "GPUs", run: async () => judgeCards(await findGpus()) },
  { name: "CUDA", run: cuda },
];

/** Pure: a card that nvidia-smi does not list is a warning, since Verk never uses such a card. */
export function judgeCards({ cards, hasTool, signs }: GpuPresence): Verdict {
  if (cards.length === 0) {
    const advice = unusedGpu({ cards, hasTool, signs, hasLibrary: true });
    return advice ? warn(advice.why, advice.fix) : ok("no NVIDIA GPU: everything runs on the CPU");
  }
  const shown = cards.map(
    ({ name, memoryTotalMib, driverVersion }) =>
      `${name}, ${formatBytes(memoryTotalMib * 2 ** 20)}, driver ${driverVersion}`,
  );
  return ok(shown.join("; "));
}

async function cuda(scene: Scene): Promise<Verdict> {
  const facts = { ...(await findGpus()), hasLibrary: groups["llama-cuda"] !== undefined };
  return judgeCuda(facts, {
    probe: () => probeInChild("cuda", scene.probeDir),
    trouble: (error) => {
      const dir = libraryDir(scene.probeDir);
      return cudaTrouble(error.includes("cannot open shared object file") ? missingIn(dir) : [], dir, error);
    },
  });
}

type CudaLibrary = {
  probe: () => Promise<ProbeReport>;
  /** `error`: the reason why the probe failed. */
  trouble: (error: string) => [detail: string, fix: string];
};

/** Probes the library only if there is a card and nothing else prevents its use. */
export async function judgeCuda(facts: GpuFacts, library: CudaLibrary): Promise<Verdict> {
  const inside = facts.hasLibrary ? "a CUDA library" : "no CUDA library";
  if (facts.cards.length === 0) return ok(`this executable has ${inside} inside; no NVIDIA GPU to use`);
  const advice = unusedGpu(facts);
  if (advice) return warn(advice.why, advice.fix);
  const report = await library.probe();
  if (!report.ok) return fail(...library.trouble(report.error ?? "the self-test failed"));
  const devices = report.detail["devices"] as { name: string; description: string }[];
  return ok(devices.map(({ name, description }) => `${name} ${description}`).join(", "));
}

const RUNTIME = ["libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13"] as const;
const DRIVER = "libcuda.so.1";

/** Asks the dynamic loader itself, which knows its cache, the default directories and LD_LIBRARY_PATH. */
const loaderFinds = (library: string) =>
  Bun.spawnSync([platform.loader, "--list", library], { stdout: "ignore", stderr: "ignore" }).exitCode === 0;

/** Libraries may also be beside libggml-cuda.so, where the loader searches first. */
function missingIn(dir: string): string[] {
  const beside = existsSync(dir) ? readdirSync(dir) : [];
  return [DRIVER, ...RUNTIME].filter((name) => !beside.includes(name) && !loaderFinds(name));
}

function libraryDir(probeDir: string): string {
  const native = join(probeDir, "native");
  const group = readdirSync(native).find((name) => name.startsWith("llama-cuda-"));
  return join(native, group ?? "llama-cuda-…", `${platform.name}-cuda`);
}

/** Pure: the problem and its fix, from the libraries that the loader does not find. */
export function cudaTrouble(missing: readonly string[], dir: string, error: string): [detail: string, fix: string] {
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
    `the CUDA library does not work on this machine's card: ${reasonIn(error)}`,
    "update the driver to R580 or newer, or run ./install.sh in a checkout on this machine, which builds an executable for the card",
  ];
}

/** llama.cpp prints its reason in the middle of the output before it ends the process. */
const reasonIn = (error: string) => /CUDA error: (.+)/.exec(error)?.[1]?.replace(/\.$/, "") ?? error;
