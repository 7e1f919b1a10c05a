import { describe, expect, test } from "bun:test";
import { dirname, join } from "node:path";
import { buildEmulation, canEmulate } from "./emulation/device.ts";

const ROOT = join(import.meta.dir, "../..");

/** Runs tests in a process that loads our libcuda, and returns its last lines. */
async function underFakeCuda(device: "cuda" | "twin", ...files: string[]) {
  const library = buildEmulation("libcuda.so.1", ["fake_cuda.cpp"]);
  const child = Bun.spawn([process.execPath, "test", "--timeout=120000", ...files], {
    cwd: ROOT,
    env: {
      ...process.env,
      LD_LIBRARY_PATH: dirname(library),
      VERK_DECODE_DEVICE: device,
      VERK_DECODE_FATBIN: import.meta.path, // any file: the fake reads none of it
    },
    stdout: "ignore",
    stderr: "pipe",
  });
  const text = await new Response(child.stderr).text();
  return { code: await child.exited, text };
}

describe.skipIf(!canEmulate)("the calls of libcuda", () => {
  test("kernels, graphs and copies through the driver's interface", async () => {
    const { code, text } = await underFakeCuda(
      "cuda",
      "test/serving/decoder.test.ts",
      "test/native/decode_draw.test.ts",
    );
    expect([code, text.slice(-600)]).toEqual([0, expect.stringContaining(" 0 fail")]);
  });
});
