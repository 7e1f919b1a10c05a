/** Chooses the CUDA library for a build on this machine. Pure: `here.ts` inspects the machine and builds. */
import { OLDEST_DRIVER, oldDriver, sentence, unusedGpu } from "../../src/cli/doctor/gpu_advice.ts";

export type Card = {
  name: string;
  driverVersion: string /** Compute capability without the dot: 90. */;
  capability: number;
};

export type Facts = {
  cards: readonly Card[];
  hasTool: boolean;
  signs: readonly string[];
  /** The clause of scripts/cuda/nvcc where nvcc cannot be used, else null. */
  nvccTrouble: string | null;
  /** The folder of the npm package with a compiled library; null where this platform has no such package. */
  prebuilt: string | null;
};

export type Way =
  /** Compile the library for these compute capabilities. */
  | { kind: "compile"; architectures: string }
  /** Take the library of the npm package. */
  | { kind: "prebuilt"; dir: string };
export type Choice = {
  /** Ways to a library, the best first. None: the build is for the CPU. */
  ways: Way[];
  /** One sentence for the person who builds; null where there is no card. */
  say: string | null;
};

export const OLDEST_CAPABILITY = 75; // CUDA 13 does not compile for older cards
const TOOLKIT = "install the CUDA toolkit 13 (nvcc and cuBLAS) and run this again";
const RUNTIME = "install NVIDIA's packages cuda-cudart-13-0 and libcublas-13-0";
const onCpu = (say: string | null): Choice => ({ ways: [], say });

export function chooseLibrary(facts: Facts): Choice {
  const { cards, nvccTrouble, prebuilt } = facts;
  if (cards.length === 0) {
    const advice = unusedGpu({ ...facts, hasLibrary: true });
    return onCpu(advice && sentence(advice));
  }
  const old = oldDriver(cards);
  if (old) return onCpu(sentence(old));
  const usable = cards.filter(({ capability }) => capability >= OLDEST_CAPABILITY);
  const names = [...new Set((usable.length > 0 ? usable : cards).map(({ name }) => name))].join(", ");
  if (usable.length === 0)
    return onCpu(`${names} stays unused: CUDA 13 needs a card with compute capability 7.5 or newer.`);

  const fallback: Way[] = prebuilt === null ? [] : [{ kind: "prebuilt", dir: prebuilt }];
  if (nvccTrouble === null) {
    const numbers = [...new Set(usable.map(({ capability }) => capability))].sort((a, b) => a - b);
    const architectures = numbers.join(";");
    const say = `Found ${names}: building with a CUDA library for compute capability ${numbers.map(dotted).join(" and ")}.`;
    return { ways: [{ kind: "compile", architectures }, ...fallback], say };
  }
  if (prebuilt !== null)
    return {
      ways: fallback,
      say: `Found ${names}, but ${nvccTrouble}: building with the compiled library of the npm package.`,
    };
  return onCpu(`${names} stays unused: ${nvccTrouble}; to use the GPU, ${TOOLKIT}.`);
}

const dotted = (capability: number) => `${Math.floor(capability / 10)}.${capability % 10}`;

/** One sentence about a library that failed its test. `stderr`: what scripts/cuda/try_library printed there. */
export function afterTrouble(way: Way, stderr: string): string {
  const missing = /(lib[\w-]+\.so\.\d+): cannot open shared object file/.exec(stderr)?.[1];
  if (missing === "libcuda.so.1")
    return `The NVIDIA driver's ${missing} is missing; to use the GPU, install the NVIDIA driver R${OLDEST_DRIVER} or newer.`;
  if (missing)
    return `The CUDA library needs ${missing}, which is not installed; to use the GPU, ${RUNTIME} and run this again.`;
  const reason = /CUDA error: (.+)/.exec(stderr)?.[1] ?? stderr.trim().split("\n").at(-1) ?? "";
  const why = reason.trim().replace(/\.$/, "") || "its test ended without a reason";
  if (way.kind === "compile")
    return `The compiled CUDA library does not work here (${why}); to use the GPU, update the NVIDIA driver.`;
  return `The CUDA library of the npm package does not work here (${why}); to use the GPU, ${TOOLKIT}.`;
}

/** Reads `nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader`. */
export function parseCards(csv: string): Card[] {
  return csv.split("\n").flatMap((line) => {
    const found = /^(.+), ([^,]+), (\d+)\.(\d)$/.exec(line.trim()); // a product name may hold a comma
    if (!found) return [];
    const [, name = "", driverVersion = "", major, minor] = found;
    return [{ name, driverVersion, capability: Number(major) * 10 + Number(minor) }];
  });
}
