import { beforeAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { zstdCompressSync } from "node:zlib";
import type { Licenses } from "../../src/cli/licenses.ts";
import { allTexts, textsOf } from "../../src/cli/text/licenses.ts";
import { licensesFromSource } from "../bundle/licenses.ts";
import type { Ingredient } from "./components.ts";
import { PARTS, WITHOUT_TEXT } from "./license_table.ts";
import { licensesOf } from "./licenses.ts";

const ROOT = resolve(import.meta.dir, "../..");
let all: Licenses;
beforeAll(async () => {
  all = await licensesFromSource(ROOT);
});
const named = (name: string) => all.components.filter((each) => each.name === name);

test("each component has a license and at least one text, and each text a component", () => {
  expect(all.components.length).toBeGreaterThan(150);
  for (const { name, license, texts } of all.components)
    expect({ name, license, texts }).toEqual({ name, license: expect.stringMatching(/\w/), texts: expect.anything() });
  expect(all.components.filter(({ texts }) => texts.length === 0)).toEqual([]);
  const used = new Set(all.components.flatMap(({ texts }) => texts));
  expect(used.size).toBe(all.texts.length);
  expect(new Set(all.texts).size).toBe(all.texts.length);
});

test("Verk, Bun, the native libraries, the dashboard's scripts and the models are there", () => {
  expect(all.components[0]).toMatchObject({ name: "verk", license: "Apache-2.0" });
  for (const name of ["bun", "llama.cpp", "onnxruntime-node", "cpython", "glibc", "libstdc++.so.6", "uplot", "zod"])
    expect(named(name)).toHaveLength(1);
  expect(named("vips")).toEqual([expect.objectContaining({ inside: expect.stringContaining("sharp-libvips") })]);
  expect(named("SQLite").map(({ inside }) => inside)).toEqual(["bun", "pyodide"]);
  expect(named("tslib")).toHaveLength(2);
  const whole = named("detector_whole.onnx")[0];
  expect(whole && textsOf(whole, all)).toContain("Copyright (c) 2019 Paul Spende");
  expect(all.components.some(({ name }) => name === "typescript")).toBe(false);
});

test("all texts stand once below their components, and are small when packed", () => {
  const text = allTexts(all);
  const lesser = readFileSync(join(ROOT, "scripts/packages/license_texts/LGPL-3.0-or-later.txt"), "utf8").trim();
  expect(text.split(lesser)).toHaveLength(2);
  for (const { name } of all.components) expect(text).toContain(`\n${name} `);
  expect(zstdCompressSync(JSON.stringify(all)).byteLength).toBeLessThan(120_000);
});

test("the table names only components that a build has, and license_texts/ has only texts that are used", () => {
  const names = all.components.map(({ name }) => name);
  const isOther = (name: string) => /-linux-(x64|arm64)$/.test(name);
  const tables = [...Object.keys(WITHOUT_TEXT), ...Object.keys(PARTS)];
  expect(tables.filter((name) => !isOther(name) && !names.includes(name))).toEqual([]);
  const noted = all.components.filter(({ note }) => note !== null).map(({ name }) => name);
  expect(Object.keys(WITHOUT_TEXT).filter((name) => !isOther(name) && !noted.includes(name))).toEqual([]);
  const used = new Set(all.components.flatMap(({ license }) => license.split(/ (?:AND|OR|WITH) /)));
  const files = readdirSync(join(ROOT, "scripts/packages/license_texts")).map((file) => file.replace(/\.txt$/, ""));
  expect(files.filter((id) => !used.has(id))).toEqual([]);
});

test("a component without a text that the table does not name stops the build, and so does an unknown license", () => {
  const dir = mkdtempSync(join(tmpdir(), "verk-licenses-"));
  mkdirSync(join(dir, "package"));
  writeFileSync(join(dir, "LICENSE"), "own terms\r\n");
  const component = (name: string, license: string): Ingredient => ({
    type: "library",
    ref: name,
    name,
    license,
    parts: [],
    folder: join(dir, "package"),
    hash: { alg: "SHA-256", content: "" },
  });
  expect(() => licensesOf(dir, "1.0.0", [component("left-out", "MIT")])).toThrow("left-out has no license file");
  expect(() => licensesOf(dir, "1.0.0", [component("pyodide", "MPL-2.0")])).toThrow("license_texts/MPL-2.0.txt");
  writeFileSync(join(dir, "package/License.md"), "own terms\n");
  writeFileSync(join(dir, "package/license.js"), "no text");
  expect(licensesOf(dir, "1.0.0", [component("left-out", "MIT")])).toEqual({
    components: [
      { name: "verk", version: "1.0.0", license: "Apache-2.0", inside: null, note: null, texts: [0] },
      { name: "left-out", version: null, license: "MIT", inside: null, note: null, texts: [0] },
    ],
    texts: ["own terms"],
  });
  rmSync(dir, { recursive: true });
});

function verk(...args: string[]) {
  const run = Bun.spawnSync([process.execPath, join(ROOT, "src/main.ts"), "licenses", ...args], { stderr: "pipe" });
  return { code: run.exitCode, out: run.stdout.toString(), err: run.stderr.toString() };
}

test("the command lists, prints one, and names the nearest of an unknown name", () => {
  const list = verk("--list");
  expect(list.code).toBe(0);
  expect(list.out).toMatch(/^zod +\d\S+ +MIT$/m);
  expect(list.out.trimEnd().split("\n")).toHaveLength(all.components.length);
  const one = verk("zod");
  expect(one.out).toContain(readFileSync(join(ROOT, "node_modules/zod/LICENSE"), "utf8").trim());
  expect(one.out).not.toContain("preact");
  const json = JSON.parse(verk("zod", "--list", "--json").out) as unknown;
  expect(json).toEqual([
    { name: "zod", version: expect.stringMatching(/^\d/), license: "MIT", inside: null, note: null },
  ]);
  expect(verk("zood")).toMatchObject({ code: 2, err: expect.stringContaining("Did you mean zod?") });
}, 120_000);

const BUILT = join(ROOT, "dist/verk");
test.skipIf(!existsSync(`${BUILT}.licenses.txt`))(
  "the executable prints what the build wrote beside it",
  () => {
    const run = Bun.spawnSync([BUILT, "licenses"]);
    expect(run.stdout.toString()).toBe(readFileSync(`${BUILT}.licenses.txt`, "utf8"));
  },
  120_000,
);
