import { afterEach, beforeEach, expect, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EmbeddedGroup } from "../../src/native/bundle/embedded.ts";
import { ensureGroup, verifyGroup } from "../../src/native/bundle/extract.ts";
import { platform } from "../../src/native/platform/index.ts";
import { inputsHash } from "./inputs.ts";
import { nativeGroups, stageNatives } from "./natives.ts";
import { nativePlugin } from "./rewrites.ts";

const ROOT = join(import.meta.dir, "../..");
const MODULES = join(ROOT, "node_modules");
const REWRITTEN = [
  "sharp/dist/sharp.mjs",
  "sharp/dist/sharp.cjs",
  "onnxruntime-node/dist/binding.js",
  "node-llama-cpp/dist/utils/getModuleVersion.js",
  "node-llama-cpp/dist/bindings/utils/binariesGithubRelease.js",
  "node-llama-cpp/dist/bindings/utils/testBindingBinary.js",
  "pyodide/pyodide.mjs",
  "@eshaz/web-worker/cjs/node.js",
];
const READ = ["sharp/package.json", "node-llama-cpp/package.json", "node-llama-cpp/llama/binariesGithubRelease.json"];

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "verk-bundle-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function copyPackages() {
  for (const file of [...REWRITTEN, ...READ]) {
    cpSync(join(ROOT, "node_modules", file), join(dir, "node_modules", file), { recursive: true });
  }
}
const plugin = () =>
  nativePlugin({
    root: dir,
    target: platform,
    embedded: "",
    groups: ["llama"],
    dashboard: "",
    licenses: "",
    seen: () => {},
  });

test("the installed packages have the shape that the build rewrites", () => {
  copyPackages();
  expect(plugin().name).toBe("verk-native");
});

test.each(REWRITTEN)("the build stops when %s no longer contains the text that is replaced", (file) => {
  copyPackages();
  writeFileSync(join(dir, "node_modules", file), "export const somethingElse = 1;\n");
  expect(plugin).toThrow(`${file} has changed: it no longer contains`);
});

test("what is staged comes out of the generated module byte for byte, and equal files are stored once", async () => {
  const large = Buffer.alloc((32 << 20) + 5, "long "); // one slice and a bit
  writeFileSync(join(dir, "large.so"), large);
  writeFileSync(join(dir, "small.so"), "small");
  writeFileSync(join(dir, "twin.so"), "small");
  const source = (name: string, rel = name) => ({ path: join(dir, name), rel });
  const staged = stageNatives(
    { a: [source("large.so", "lib/large.so"), source("small.so")], b: [source("twin.so")] },
    join(dir, "stage"),
  );
  expect(readdirSync(join(dir, "stage"))).toHaveLength(3);

  writeFileSync(join(dir, "embedded.ts"), staged.moduleSource);
  const { groups }: { groups: Record<string, EmbeddedGroup> } = await import(join(dir, "embedded.ts"));
  const out = ensureGroup("a", join(dir, "data"), groups);
  expect(readFileSync(join(out, "lib/large.so")).equals(large)).toBe(true);
  expect(verifyGroup("a", join(dir, "data"), groups)).toEqual([]);
  expect(readFileSync(join(ensureGroup("b", join(dir, "data"), groups), "twin.so"), "utf8")).toBe("small");
});

test("files that are alike are packed together, and come out one by one", async () => {
  const noise = Buffer.from(Array.from({ length: 50_000 }, (_, i) => (Math.imul(i, i * 2_654_435_761) >>> 13) & 255));
  const kinds = ["alpha", "beta", "gamma"].map((kind) => ({
    rel: `x/libggml-cpu-${kind}.so`,
    content: `${kind}${noise}`,
  }));
  mkdirSync(join(dir, "x"));
  for (const { rel, content } of kinds) writeFileSync(join(dir, rel), content);
  writeFileSync(join(dir, "x/other.so"), "other");
  const files = [...kinds.map(({ rel }) => rel), "x/other.so"].map((rel) => ({ path: join(dir, rel), rel }));
  const staged = stageNatives({ a: files, b: files.slice(0, 3) }, join(dir, "stage"));
  expect(readdirSync(join(dir, "stage"))).toHaveLength(2);
  expect(staged.packedBytes).toBeLessThan(1.5 * Buffer.byteLength(kinds[0]!.content));

  writeFileSync(join(dir, "embedded.ts"), staged.moduleSource);
  const { groups }: { groups: Record<string, EmbeddedGroup> } = await import(join(dir, "embedded.ts"));
  const out = ensureGroup("a", join(dir, "data"), groups);
  for (const { rel, content } of kinds) expect(readFileSync(join(out, rel), "utf8")).toBe(content);
  expect(readFileSync(join(out, "x/other.so"), "utf8")).toBe("other");
});

test("a CUDA build carries the given library and the committed kernels beside the libraries of the CPU set", () => {
  writeFileSync(join(dir, "libggml-cuda.so"), "");
  const folder = `${platform.name}-cuda`;
  const packageDir = (name: string) => join(MODULES, name);
  const groups = (cudaDir: string) => nativeGroups({ root: ROOT, target: { platform, packageDir }, cudaDir });
  const { llama = [], "llama-cuda": cuda = [] } = groups(dir);
  const pathOf = (rel: string) => cuda.find((file) => file.rel === `${folder}/${rel}`)?.path;
  expect(pathOf("libggml-cuda.so")).toBe(join(dir, "libggml-cuda.so"));
  expect(pathOf("verk-kernels.fatbin")).toBe(join(ROOT, "src/native/cuda/kernels/verk-kernels.fatbin"));
  expect(pathOf("verk-decode.fatbin")).toBe(join(ROOT, "src/native/cuda/kernels/decode/verk-decode.fatbin"));
  expect(cuda.slice(0, -3).map(({ path }) => path)).toEqual(llama.map(({ path }) => path));
  expect(() => groups(join(dir, "nowhere"))).toThrow("scripts/build_cuda");
});

test("a build is stale when a source, a name or an option changes, and not when a test does", () => {
  mkdirSync(join(dir, "src"));
  writeFileSync(join(dir, "src/a.ts"), "1");
  const before = inputsHash(dir, "");
  writeFileSync(join(dir, "src/a.test.ts"), "1");
  expect(inputsHash(dir, "")).toBe(before);
  expect(inputsHash(dir, "cuda")).not.toBe(before);
  writeFileSync(join(dir, "src/a.ts"), "2");
  expect(inputsHash(dir, "")).not.toBe(before);
});
