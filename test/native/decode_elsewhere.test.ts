// tier: all (emulated CUDA)
import { describe, expect, test } from "bun:test";
import { existsSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { IS_FULL } from "../sweep.ts";
import { buildEmulation, canEmulate } from "./emulation/device.ts";

const WHOLE_FILES_MS = 600_000; // each of their tests has a limit of its own
const ROOT = join(import.meta.dir, "../..");

/** A folder with a fake of libcuda, which is one of cuBLAS too: as one file they share what is recorded. */
function fakeLibraries(): string {
  const path = buildEmulation("libcuda.so.1", ["fake_cuda.cpp", "fake_cublas.cpp"]);
  const second = join(dirname(path), "libcublas.so.13");
  if (!existsSync(second)) symlinkSync(path, second);
  return dirname(path);
}

/** Runs tests in another process and returns its exit code and output. */
async function inChild(variables: Readonly<Record<string, string>>, ...files: string[]) {
  const child = Bun.spawn([process.execPath, "test", "--timeout=120000", ...files], {
    cwd: ROOT,
    env: { ...process.env, ...variables },
    stdout: "ignore",
    stderr: "pipe",
  });
  const text = await new Response(child.stderr).text();
  return { code: await child.exited, text };
}

describe.skipIf(!canEmulate)("the same tests in another process", () => {
  test(
    "through the interface of libcuda: kernels, graphs and copies",
    async () => {
      const variables = {
        LD_LIBRARY_PATH: fakeLibraries(),
        VERK_DECODE_DEVICE: "cuda",
        VERK_DECODE_FATBIN: import.meta.path, // any file: the fake reads none of it
      };
      const some = IS_FULL ? [] : ["-t", "llama: |a mask holds|is drawn again|draw"];
      const files = ["serving/decoder", "serving/decoder_wide", "native/decode_draw"].map(
        (name) => `test/${name}.test.ts`,
      );
      const { code, text } = await inChild(variables, ...some, ...files);
      expect([code, text.slice(-600)]).toEqual([0, expect.stringContaining(" 0 fail")]);
    },
    WHOLE_FILES_MS,
  );

  test(
    "blocks of prompts through the interface of libcuda: memory of the host, copies of rows",
    async () => {
      const variables = {
        LD_LIBRARY_PATH: fakeLibraries(),
        VERK_DECODE_DEVICE: "cuda",
        VERK_DECODE_FATBIN: import.meta.path,
        VERK_TEST_HISTORIES: "6",
      };
      const { code, text } = await inChild(variables, "-t", "other threads", "test/serving/block_histories.test.ts");
      expect([code, text.slice(-600)]).toEqual([0, expect.stringContaining(" 0 fail")]);
    },
    WHOLE_FILES_MS,
  );

  test(
    "with the threads of a block in the other order",
    async () => {
      const files = ["products", "attention", "draw"].map((part) => `test/native/decode_${part}.test.ts`);
      const { code, text } = await inChild({ VERK_EMULATION_REVERSED: "1" }, ...files);
      expect([code, text.slice(-600)]).toEqual([0, expect.stringContaining(" 0 fail")]);
    },
    WHOLE_FILES_MS,
  );
});
