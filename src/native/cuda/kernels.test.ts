import { read } from "bun:ffi";
import { afterAll, expect, spyOn, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Ptr } from "../ffi.ts";
import { DECODE_SIGNATURES } from "./decode/kernels.ts";
import { Arguments } from "./driver.ts";
import { KERNELS_FILE, type KernelName, openKernels, SIGNATURES, sharedBytes } from "./kernels.ts";

const dir = mkdtempSync(join(tmpdir(), "verk-kernels-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test("arguments lie as a kernel's parameters do: each at a multiple of its size", () => {
  const of = new Arguments("pipiff");
  of.set([0x7f00_0000_1000, -3, 0x10, 7, 0.5, -2]);
  const packed = Number(read.u64(of.extra, 8)) as Ptr;
  expect(Number(read.u64(Number(read.u64(of.extra, 24)) as Ptr, 0))).toBe(36);
  expect([0, 16].map((at) => Number(read.u64(packed, at)))).toEqual([0x7f00_0000_1000, 0x10]);
  expect([8, 24].map((at) => read.i32(packed, at))).toEqual([-3, 7]);
  expect([28, 32].map((at) => read.f32(packed, at))).toEqual([0.5, -2]);
  expect(() => of.set([1])).toThrow("takes 6 arguments, not 1");
});

test("without the file of kernels there are none; one that does not load is told of, and done without", () => {
  expect(openKernels(dir, 0)).toBeNull();
  writeFileSync(join(dir, KERNELS_FILE), "not machine code");
  const told = spyOn(process.stderr, "write").mockImplementation(() => true);
  try {
    expect(openKernels(dir, 0)).toBeNull();
    expect(String(told.mock.calls[0]?.[0])).toContain("training continues without the CUDA kernels of Verk");
  } finally {
    told.mockRestore();
  }
});

/** Parameters as `SIGNATURES` has them: structs are their fields. */
function lettersOf(parameters: string, structs: ReadonlyMap<string, string>): string {
  const each = parameters.split(",").map((parameter) => {
    const words = parameter.replaceAll("const ", "").trim();
    if (words.includes("*")) return "p";
    const type = words.split(" ")[0] as string;
    return { int: "i", float: "f" }[type] ?? structs.get(type) ?? `(${type})`;
  });
  return each.join("");
}

test("a block of every kernel has room in the shared memory of every card", () => {
  const MOST = 99 << 10; // of compute capabilities 8.6, 8.9 and 12
  const names = Object.keys(SIGNATURES) as KernelName[];
  expect(names.filter((name) => sharedBytes(name) > MOST)).toEqual([]);
  expect(names.filter((name) => sharedBytes(name) > 0)).toHaveLength(17);
});

test("kernels are started with the parameters that they have", () => {
  const folder = join(import.meta.dir, "kernels");
  const source = readdirSync(folder)
    .filter((name) => /\.cuh?$/.test(name))
    .map((name) => readFileSync(join(folder, name), "utf8"))
    .join("\n")
    .replaceAll(/\/\/.*$/gm, "")
    .replaceAll(/\\?\n/g, " ");
  const structs = new Map<string, string>();
  for (const [, name = "", body = ""] of source.matchAll(/struct (Sight|Backward|Heads) \{(.*?)\};/g)) {
    const fields = body
      .split(";")
      .filter((field) => field.trim() !== "")
      .map((field) => {
        const count = field.split(",").length;
        if (field.includes("*")) return "p".repeat(count);
        return (/\bfloat\b/.test(field) ? "f" : "i").repeat(count);
      });
    structs.set(name, fields.join(""));
  }
  const found: Record<string, string> = {};
  const kinds = [...source.matchAll(/ATTENTION\(((?:limited_)?\d+), /g)].map(([, kind = ""]) => kind);
  expect(kinds.length).toBeGreaterThan(3);
  const kernels = source.matchAll(/extern "C" __global__ (?:__launch_bounds__\(\w+\) )?void (\w+?)(##NAME)?\((.*?)\)/g);
  for (const [, name = "", named, parameters = ""] of kernels)
    for (const full of named ? kinds.map((kind) => name + kind) : [name]) found[full] = lettersOf(parameters, structs);
  const { product_tiles_64, product_tiles_128, ...own } = SIGNATURES; // sources of decoding, which its own test reads
  expect(found).toEqual(own);
  expect([product_tiles_64, product_tiles_128]).toEqual([DECODE_SIGNATURES.product_tiles_64, product_tiles_64]);
});
