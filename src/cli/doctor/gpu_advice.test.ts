import { expect, test } from "bun:test";
import { type GpuFacts, sentence, unusedGpu } from "./gpu_advice.ts";

const H200 = { name: "NVIDIA H200", driverVersion: "580.159.03" };
const facts = (some: Partial<GpuFacts>): GpuFacts => ({
  cards: [],
  hasTool: false,
  signs: [],
  hasLibrary: true,
  ...some,
});

test("a machine without a card, and a card that is used, need no advice", () => {
  expect(unusedGpu(facts({ hasLibrary: false }))).toBeNull();
  expect(unusedGpu(facts({ cards: [H200], hasTool: true, signs: ["/dev/nvidia0"] }))).toBeNull();
});

test.each([
  [
    "an executable without CUDA",
    facts({ cards: [H200, H200], hasTool: true, hasLibrary: false }),
    "NVIDIA H200 stays unused: this executable has no CUDA library inside; to use the GPU, run ./install.sh in a checkout on this machine, which builds an executable for the card.",
  ],
  [
    "a card without nvidia-smi",
    facts({ signs: ["PCI device 0000:01:00.0"] }),
    "An NVIDIA card stays unused: the machine has PCI device 0000:01:00.0, but nvidia-smi is not installed; to use the GPU, install the NVIDIA driver R580 or newer with nvidia-smi; a container also needs --gpus all.",
  ],
  [
    "a card that nvidia-smi does not list",
    facts({ signs: ["/dev/nvidia0"], hasTool: true }),
    "An NVIDIA card stays unused: the machine has /dev/nvidia0, but nvidia-smi lists no card; to use the GPU, install the NVIDIA driver R580 or newer with nvidia-smi; a container also needs --gpus all.",
  ],
  [
    "an old driver, whatever the executable has inside",
    facts({ cards: [{ name: "NVIDIA A100", driverVersion: "550.54.15" }], hasTool: true, hasLibrary: false }),
    "NVIDIA A100 stays unused: the NVIDIA driver 550.54.15 is too old for CUDA 13; to use the GPU, update the driver to R580 or newer.",
  ],
])("%s is explained in one sentence with the fix", (_name, given, want) => {
  const advice = unusedGpu(given);
  expect(advice && sentence(advice)).toBe(want);
});

test("a driver version that is no number is left to the library to judge", () => {
  expect(unusedGpu(facts({ cards: [{ name: "GPU", driverVersion: "[N/A]" }], hasTool: true }))).toBeNull();
});
