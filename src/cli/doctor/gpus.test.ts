import { describe, expect, test } from "bun:test";
import type { ProbeReport } from "../../native/probe.ts";
import { parseGpus } from "../../platform/machine/hardware.ts";
import { fail } from "./check.ts";
import type { GpuFacts } from "./gpu_advice.ts";
import { cudaTrouble, judgeCards, judgeCuda } from "./gpus.ts";

const DIR = "/data/native/llama-cuda-1";
const cards = parseGpus("0, GPU-5a1c, NVIDIA H200, 143771, 4, 17, 31, 75.36, 580.95.05\n");
const facts = (some: Partial<GpuFacts>): GpuFacts => ({
  cards,
  hasTool: true,
  signs: ["/dev/nvidia0"],
  hasLibrary: true,
  ...some,
});
/** A probe that returns `report` and counts its calls. */
function fakeProbe(report: Partial<ProbeReport>) {
  const calls = { count: 0 };
  const probe = async (): Promise<ProbeReport> => {
    calls.count++;
    return { kind: "cuda", ok: true, detail: {}, duration_ms: 1, ...report };
  };
  return { calls, library: { probe, trouble: (error: string) => cudaTrouble([], DIR, error) } };
}

test("cards are listed with memory and driver; a card that nvidia-smi does not list is a warning with the fix", () => {
  expect(judgeCards({ cards, hasTool: true, signs: [] })).toMatchObject({
    status: "ok",
    detail: "NVIDIA H200, 140.4 GiB, driver 580.95.05",
  });
  expect(judgeCards({ cards: [], hasTool: false, signs: [] })).toMatchObject({ status: "ok" });
  expect(judgeCards({ cards: [], hasTool: false, signs: ["/dev/nvidia0"] })).toEqual({
    status: "warn",
    detail: "An NVIDIA card stays unused: the machine has /dev/nvidia0, but nvidia-smi is not installed",
    fix: "install the NVIDIA driver R580 or newer with nvidia-smi; a container also needs --gpus all",
  });
});

test("a card beside an executable without CUDA is a warning with the way to a build for it; the library is not probed", async () => {
  const { calls, library } = fakeProbe({});
  expect(await judgeCuda(facts({ hasLibrary: false }), library)).toEqual({
    status: "warn",
    detail: "NVIDIA H200 stays unused: this executable has no CUDA library inside",
    fix: "run ./install.sh in a checkout on this machine, which builds an executable for the card",
  });
  expect(await judgeCuda(facts({ cards: [] }), library)).toMatchObject({ status: "ok" });
  expect(calls.count).toBe(0);
});

test("a library that computes on the card is ok, and one that does not fails with llama.cpp's reason", async () => {
  const devices = [{ name: "CUDA0", description: "NVIDIA H200" }];
  expect(await judgeCuda(facts({}), fakeProbe({ detail: { devices } }).library)).toEqual({
    status: "ok",
    detail: "CUDA0 NVIDIA H200",
  });
  const error =
    "ended by SIGABRT: ADD failed\nCUDA error: no kernel image is available for execution on the device\n  err";
  expect(await judgeCuda(facts({}), fakeProbe({ ok: false, error }).library)).toMatchObject({
    status: "fail",
    detail:
      "the CUDA library does not work on this machine's card: no kernel image is available for execution on the device",
    fix: expect.stringContaining("./install.sh"),
  });
});

describe("what is missing for CUDA decides the advice", () => {
  test.each([
    ["the driver first", ["libcuda.so.1", "libcudart.so.13"], "driver"],
    ["then the runtime, with the folder to copy into", ["libcublas.so.13"], DIR],
    ["with everything found, a build for the card", [], "install.sh"],
  ])("%s", (_name, missing, advice) => expect(fail(...cudaTrouble(missing, DIR, "x")).fix).toContain(advice));
});
