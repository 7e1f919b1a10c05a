import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import {
  ATTEND_THREADS,
  CHUNK,
  DECODE_SIGNATURES,
  DRAW_THREADS,
  DRAWING_WORDS,
  EXACT_THREADS,
  GATE_UP_THREADS,
  HEAD_LENGTHS,
  MOST_ALTERNATIVES,
  MOST_RANK,
  mostShared,
  PACKED,
  PAGE,
  PROMPT_LINES,
  PROMPT_THREADS,
  productShared,
  RANK_STEP,
  READY_BLOCK,
  SPAN,
  SUM_PARTS,
  slicesOf,
  sumsShared,
  TILE_ROWS,
  TILE_WORDS,
} from "./kernels.ts";

const folder = join(import.meta.dir, "../kernels/decode");
const source = readdirSync(folder)
  .filter((name) => /\.cuh?$/.test(name))
  .map((name) => readFileSync(join(folder, name), "utf8"))
  .join("\n")
  .replaceAll(/\/\/.*$/gm, "")
  .replaceAll(/\\?\n/g, " ");

const lettersOf = (fields: readonly string[], structs: ReadonlyMap<string, string>): string =>
  fields
    .map((field) => {
      const count = field.split(",").length;
      if (field.includes("*")) return "p".repeat(count);
      const type = field
        .trim()
        .replace(/^const /, "")
        .split(" ")[0] as string;
      const letter = { int: "i", float: "f" }[type] ?? structs.get(type);
      if (letter === undefined) throw new Error(`${type} has no letter`);
      return letter.repeat(count);
    })
    .join("");

test("kernels are started with the parameters that they have", () => {
  const structs = new Map<string, string>();
  for (const name of [
    "Ready",
    "Branch",
    "Rows",
    "Pages",
    "HeadShape",
    "Product",
    "Adapters",
    "Attention",
    "ExactAttention",
    "Draw",
  ]) {
    const body = new RegExp(`struct ${name} \\{(.*?)(?:\\}|template|__device__)`).exec(source)?.[1] as string;
    const fields = body.split(";").filter((field) => field.trim() !== "");
    structs.set(name, lettersOf(fields, structs));
  }
  const found: Record<string, string> = {};
  const kernels = source.matchAll(
    /extern "C" __global__ (?:__launch_bounds__\([^)]*\) )?void (\w+?)(##NAME##\w+|##LENGTH|##KIND)?\(([^)]*)\)/g,
  );
  for (const [, name = "", part = "", parameters = ""] of kernels) {
    const suffix = part.replace("##NAME##", "");
    const names =
      part === ""
        ? [name]
        : part === "##LENGTH"
          ? HEAD_LENGTHS.map((n) => name + n)
          : part === "##KIND"
            ? ["", "_256", "_q8", "_q8_256"].map((kind) => name + kind)
            : [];
    const packed = parameters.includes("Ready with");
    const formats = part.startsWith("##NAME") ? (packed ? ["q8", "q4", "q6"] : ["bf16"]) : [];
    for (const each of [...names, ...formats.map((format) => name + format + suffix)])
      found[each] = lettersOf(parameters.split(","), structs);
  }
  expect(found).toEqual(DECODE_SIGNATURES);
});

test("numbers that both sides fix are equal", () => {
  const constant = (name: string) =>
    Number(new RegExp(`constexpr int (?:\\w+ = [^,;]+, )*${name} = (\\d+)[,;]`).exec(source)?.[1]);
  expect(constant("PAGE")).toBe(PAGE);
  expect(constant("READY_BLOCK")).toBe(READY_BLOCK);
  for (const [format, { numbers, tile }] of Object.entries(PACKED)) {
    const own = new RegExp(`struct ${format.toUpperCase()}Packed \\{(.*?)struct`).exec(source)?.[1];
    expect(own).toContain(`NUMBERS = ${numbers}, TILE = ${tile},`);
  }
  expect(constant("CHUNK")).toBe(CHUNK);
  expect(constant("DRAW_THREADS")).toBe(DRAW_THREADS);
  expect(constant("DRAWING_WORDS")).toBe(DRAWING_WORDS);
  expect(constant("MOST_ALTERNATIVES")).toBe(MOST_ALTERNATIVES);
  expect(constant("ATTEND_WARPS") * 32).toBe(ATTEND_THREADS);
  expect(constant("ATTEND_WARPS") * PAGE).toBe(CHUNK); // a warp has one page of a chunk
  expect(constant("SPAN")).toBe(SPAN);
  expect(constant("PROMPT_WARPS") * 32).toBe(PROMPT_THREADS);
  expect(PROMPT_THREADS / 2).toBe(PROMPT_LINES);
  expect(constant("EXACT_WARPS") * 32).toBe(EXACT_THREADS);
  expect(constant("MOST_RANK")).toBe(MOST_RANK);
  expect(constant("TILE_ROWS")).toBe(TILE_ROWS);
  expect(constant("TILE_WORDS")).toBe(TILE_WORDS);
  expect(constant("RANK_STEP")).toBe(RANK_STEP);
  expect(constant("SUM_PARTS")).toBe(SUM_PARTS);
  expect(sumsShared(4)).toBe(4 * TILE_ROWS * (constant("RANKS") + 4) * 4);
  expect(source).toContain(`__launch_bounds__(${GATE_UP_THREADS}) void adapter_gate_up`);
  for (const depth of [64, 4096])
    expect(sumsShared(slicesOf(depth))).toBeLessThanOrEqual(
      productShared({ format: "bf16", tile: "deep", slices: slicesOf(depth) }),
    );
  const stages = constant("STAGES");
  expect(productShared({ format: "bf16", tile: "tiles_128", slices: 8 })).toBe(stages * 256 * constant("UNIT") * 2);
});

test("shared memory fits into a multiprocessor", () => {
  for (const name of Object.keys(DECODE_SIGNATURES))
    expect(mostShared(name as keyof typeof DECODE_SIGNATURES)).toBeLessThanOrEqual(99 * 1024); // of capability 8.6
  expect(mostShared("product_bf16_64")).toBe(productShared({ format: "bf16", tile: 64, slices: slicesOf(4096) }));
});
