import { describe, expect, test } from "bun:test";
import { afterTrouble, chooseLibrary, type Facts, parseCards } from "./choice.ts";

const H200 = { name: "NVIDIA H200", driverVersion: "580.159.03", capability: 90 };
const RTX = { name: "NVIDIA GeForce RTX 4090", driverVersion: "580.95.05", capability: 89 };
const PREBUILT = { kind: "prebuilt", dir: "/packages/cuda" } as const;
const facts = (some: Partial<Facts>): Facts => ({
  cards: [H200],
  hasTool: true,
  signs: ["/dev/nvidia0"],
  nvccTrouble: null,
  prebuilt: PREBUILT.dir,
  ...some,
});

test("a machine without a card builds for the CPU and says nothing", () => {
  expect(chooseLibrary(facts({ cards: [], hasTool: false, signs: [] }))).toEqual({ ways: [], say: null });
});

test("with nvcc the library is compiled for exactly the cards that are there, each capability once", () => {
  expect(chooseLibrary(facts({ cards: [H200, RTX, H200] }))).toEqual({
    ways: [{ kind: "compile", architectures: "89;90" }, PREBUILT],
    say: "Found NVIDIA H200, NVIDIA GeForce RTX 4090: building with a CUDA library for compute capability 8.9 and 9.0.",
  });
});

test("without nvcc the library of the npm package is taken, where there is one", () => {
  expect(chooseLibrary(facts({ nvccTrouble: "nvcc is not installed" }))).toEqual({
    ways: [PREBUILT],
    say: "Found NVIDIA H200, but nvcc is not installed: building with the compiled library of the npm package.",
  });
});

describe("a card that cannot be used is explained in one sentence, and the build is for the CPU", () => {
  test.each([
    [
      "no package for this platform",
      { nvccTrouble: "nvcc is not installed", prebuilt: null },
      "NVIDIA H200 stays unused: nvcc is not installed; to use the GPU, install the CUDA toolkit 13 (nvcc and cuBLAS) and run this again.",
    ],
    [
      "an old driver",
      { cards: [{ ...H200, driverVersion: "550.54.15" }] },
      "NVIDIA H200 stays unused: the NVIDIA driver 550.54.15 is too old for CUDA 13; to use the GPU, update the driver to R580 or newer.",
    ],
    [
      "an old card",
      { cards: [{ name: "Tesla P100", driverVersion: "580.95.05", capability: 60 }] },
      "Tesla P100 stays unused: CUDA 13 needs a card with compute capability 7.5 or newer.",
    ],
    [
      "a card without nvidia-smi",
      { cards: [], hasTool: false },
      "An NVIDIA card stays unused: the machine has /dev/nvidia0, but nvidia-smi is not installed; to use the GPU, install the NVIDIA driver R580 or newer with nvidia-smi; a container also needs --gpus all.",
    ],
  ])("%s", (_name, some, say) => expect(chooseLibrary(facts(some))).toEqual({ ways: [], say }));
});

test("an old card beside a newer one is left out of the compilation", () => {
  const old = { name: "Tesla P100", driverVersion: "580.95.05", capability: 60 };
  expect(chooseLibrary(facts({ cards: [old, H200] })).ways[0]).toEqual({ kind: "compile", architectures: "90" });
});

// As the dynamic loader and ggml_cuda_error of llama.cpp write their reasons.
describe("a library that fails its test is explained in one sentence", () => {
  const loader =
    'Failed to open library "/x/libggml-cuda.so": libcublas.so.13: cannot open shared object file: No such file or directory';
  const ptx =
    "ggml_cuda_compute_forward: ADD failed\nCUDA error: the provided PTX was compiled with an unsupported toolchain.\n  current device: 0, in function ggml_cuda_compute_forward at ggml-cuda.cu:2423\n  err";
  test.each([
    [
      "a missing runtime",
      PREBUILT,
      loader,
      "The CUDA library needs libcublas.so.13, which is not installed; to use the GPU, install NVIDIA's packages cuda-cudart-13-0 and libcublas-13-0 and run this again.",
    ],
    [
      "a missing driver library",
      PREBUILT,
      loader.replace("libcublas.so.13", "libcuda.so.1"),
      "The NVIDIA driver's libcuda.so.1 is missing; to use the GPU, install the NVIDIA driver R580 or newer.",
    ],
    [
      "no machine code for the card",
      PREBUILT,
      ptx,
      "The CUDA library of the npm package does not work here (the provided PTX was compiled with an unsupported toolchain); to use the GPU, install the CUDA toolkit 13 (nvcc and cuBLAS) and run this again.",
    ],
    [
      "a compiled library",
      { kind: "compile", architectures: "90" } as const,
      ptx,
      "The compiled CUDA library does not work here (the provided PTX was compiled with an unsupported toolchain); to use the GPU, update the NVIDIA driver.",
    ],
    [
      "silence",
      PREBUILT,
      "",
      "The CUDA library of the npm package does not work here (its test ended without a reason); to use the GPU, install the CUDA toolkit 13 (nvcc and cuBLAS) and run this again.",
    ],
  ])("%s", (_name, way, stderr, want) => expect(afterTrouble(way, stderr)).toBe(want));
});

test("cards are read from nvidia-smi, also with a comma in the name; other lines are no card", () => {
  const text =
    "NVIDIA H200, 580.159.03, 9.0\nNVIDIA RTX PRO 6000, Max-Q, 580.95.05, 12.0\nNo devices were found\nX, 1, [N/A]\n";
  expect(parseCards(text)).toEqual([
    { name: "NVIDIA H200", driverVersion: "580.159.03", capability: 90 },
    { name: "NVIDIA RTX PRO 6000, Max-Q", driverVersion: "580.95.05", capability: 120 },
  ]);
});
