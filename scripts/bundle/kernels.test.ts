// tier: all (emulated CUDA)
import { afterEach, beforeEach, expect, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DECODE_FILE } from "../../src/native/cuda/decode/kernels.ts";
import { KERNELS_FILE } from "../../src/native/cuda/kernels.ts";
import {
  decodingKernels,
  fatbinEntries,
  KERNELS_DIR,
  RECORD_FILE,
  readKernels,
  recordFaults,
  verifiedKernels,
} from "./kernels.ts";

const ROOT = join(import.meta.dir, "../..");
const SCRIPT = join(ROOT, "scripts/build_kernels");

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "verk-kernels-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const listed = (script: string) => /^ARCHITECTURES='(.+)'$/m.exec(script)?.[1]?.split(" ");

const FAKE_NVCC = `
if [ "$1" = --version ]; then echo 'Cuda compilation tools, release 13.0, V13.0.88'; exit; fi
while [ $# -gt 1 ]; do if [ "$1" = -o ]; then echo machine code >"$2"; fi; shift; done`;
const committed = () => fatbinEntries(readFileSync(join(ROOT, KERNELS_DIR, KERNELS_FILE)));

test("the committed kernels are those of the sources", () => {
  const { record, found } = readKernels(join(ROOT, KERNELS_DIR));
  expect(recordFaults(record, found)).toEqual([]);
  expect(Number.parseFloat(record.nvcc)).toBeGreaterThanOrEqual(13);
  expect(statSync(join(ROOT, KERNELS_DIR, KERNELS_FILE)).size).toBeLessThan(4 << 20);
});

test("the committed kernels hold machine code for every architecture that the script lists, and PTX for later ones", () => {
  const architectures = listed(readFileSync(SCRIPT, "utf8")) ?? [];
  const of = (kind: string) => committed().flatMap((entry) => (entry.kind === kind ? [entry.architecture] : []));
  expect(of("machine code")).toEqual(architectures);
  expect(of("ptx")).toEqual(architectures.slice(0, 1));
  expect(readKernels(join(ROOT, KERNELS_DIR)).record.architectures).toEqual(architectures);
  expect(() => fatbinEntries(Buffer.from("something that is no fat binary"))).toThrow("not a fat binary");
});

test("a changed, a new and a missing source stop a build with CUDA and name the script that compiles", () => {
  const copy = join(dir, KERNELS_DIR);
  cpSync(join(ROOT, KERNELS_DIR), copy, { recursive: true });
  expect(verifiedKernels(dir)).toBe(join(copy, KERNELS_FILE));
  const header = join(copy, "common.cuh");
  const before = readFileSync(header);
  writeFileSync(header, `${before}\n`);
  expect(() => verifiedKernels(dir)).toThrow(/common\.cuh has changed .* scripts\/build_kernels/);
  writeFileSync(header, before);
  writeFileSync(join(copy, "new.cuh"), "");
  expect(() => verifiedKernels(dir)).toThrow("new.cuh has changed");
  rmSync(join(copy, "new.cuh"));
  rmSync(join(copy, KERNELS_FILE));
  expect(() => verifiedKernels(dir)).toThrow(`${KERNELS_FILE} is in ${RECORD_FILE} but does not exist`);
});

test("the kernels of decoding are optional; compiled from other sources they stop a build too", () => {
  cpSync(join(ROOT, KERNELS_DIR), join(dir, KERNELS_DIR), { recursive: true });
  const decode = join(dir, KERNELS_DIR, "decode");
  for (const name of [DECODE_FILE, `${DECODE_FILE}.sha256`]) rmSync(join(decode, name), { force: true });
  expect(decodingKernels(dir)).toBeNull();
  expect(compile(pathWith({ nvcc: FAKE_NVCC }), decode, "--decode")).toMatchObject({ exitCode: 0 });
  expect(decodingKernels(dir)).toBe(join(decode, DECODE_FILE));
  writeFileSync(join(dir, KERNELS_DIR, "common.cuh"), "");
  expect(() => decodingKernels(dir)).toThrow(
    /common\.cuh has changed since .*decode.* scripts\/build_kernels --decode/,
  );
});

/** Puts programs into a directory of their own and answers with the PATH that has it first. */
function pathWith(programs: Readonly<Record<string, string>>): string {
  const bin = join(dir, "fake-bin");
  mkdirSync(bin, { recursive: true });
  for (const [name, body] of Object.entries(programs))
    writeFileSync(join(bin, name), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
  return `${bin}:${process.env["PATH"]}`;
}
const compile = (path: string, out: string, ...more: string[]) =>
  Bun.spawnSync([SCRIPT, "--out", out, ...more], { env: { ...process.env, PATH: path, VERK_SYSTEM_ROOT: dir } });

test("the script records what the compiler made, with the compiler's version and the checksums of all sources", () => {
  const out = join(dir, "out");
  expect(compile(pathWith({ nvcc: FAKE_NVCC }), out)).toMatchObject({ exitCode: 0 });
  cpSync(join(ROOT, KERNELS_DIR), join(dir, KERNELS_DIR), { recursive: true });
  for (const name of [KERNELS_FILE, RECORD_FILE]) cpSync(join(out, name), join(dir, KERNELS_DIR, name));
  expect(readFileSync(verifiedKernels(dir), "utf8")).toBe("machine code\n");
  expect(readKernels(join(dir, KERNELS_DIR)).record.nvcc).toBe("13.0.88");
});

test("an nvcc that is too old is refused with what to install", () => {
  const { exitCode, stderr } = compile(pathWith({ nvcc: "echo 'release 12.4, V12.4.131'" }), join(dir, "out"));
  expect(exitCode).toBe(1);
  expect(stderr.toString()).toContain("belongs to CUDA 12.4, which is too old; install the CUDA toolkit 13");
});

const nvcc = Bun.spawnSync([join(ROOT, "scripts/cuda/nvcc")]);
const [, , build] = nvcc.stdout.toString().trim().split(" ");

// One architecture: all of them take minutes of a processor.
test.skipIf(!nvcc.success)(
  "nvcc compiles the kernels here, and the recorded nvcc makes the committed bytes",
  () => {
    const out = join(dir, "out");
    expect(compile(process.env["PATH"] ?? "", out, "--arch", "90")).toMatchObject({ exitCode: 0 });
    const machineCode = (entries: ReturnType<typeof committed>) =>
      entries.find(({ kind, architecture }) => kind === "machine code" && architecture === "90")?.content;
    const made = machineCode(fatbinEntries(readFileSync(join(out, KERNELS_FILE))));
    expect(made?.byteLength).toBeGreaterThan(10_000);
    if (readKernels(join(ROOT, KERNELS_DIR)).record.nvcc === build)
      expect(Buffer.from(made ?? []).equals(machineCode(committed()) ?? Buffer.alloc(0))).toBe(true);
  },
  600_000,
);
