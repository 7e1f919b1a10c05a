import { expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import manifest from "../../models/manifest.json";
import { PLATFORMS } from "../../src/native/platform/index.ts";
import { ingredientsOf } from "./components.ts";
import { npmPurl, packagesOf } from "./npm_packages.ts";
import { type Component, licenseOf, sbom } from "./sbom.ts";

const ROOT = resolve(import.meta.dir, "../..");
const inModules = (path: string) => join(ROOT, "node_modules", path);
test("the packages are those of the files, from the nearest named package.json", () => {
  const files = [inModules("zod/v4/core/index.js"), "node_modules/preact/dist/preact.mjs", "src/main.ts"];
  const found = packagesOf(ROOT, files);
  expect(found.map(({ name }) => name)).toEqual(["zod", "preact"]);
  expect(found[0]).toMatchObject({ license: "MIT", integrity: expect.stringMatching(/^sha512-/) });
});

test("a package that bun.lock does not name stops the build", () => {
  const dir = mkdtempSync(join(tmpdir(), "verk-sbom-"));
  writeFileSync(join(dir, "bun.lock"), '    "a": ["a@1.0.0", "", {}, "sha512-AA=="],\n');
  for (const name of ["a", "b"]) {
    mkdirSync(join(dir, "node_modules", name), { recursive: true });
    const manifest = { name, version: "1.0.0", license: "MIT" };
    writeFileSync(join(dir, "node_modules", name, "package.json"), JSON.stringify(manifest));
  }
  expect(packagesOf(dir, ["node_modules/a/index.js"])).toHaveLength(1);
  expect(() => packagesOf(dir, ["node_modules/b/index.js"])).toThrow("bun.lock has no hash of b@1.0.0");
  rmSync(dir, { recursive: true });
});

test("names become addresses of packages, and licenses ids, expressions or names", () => {
  expect(npmPurl("@img/sharp", "1.0.0")).toBe("pkg:npm/%40img/sharp@1.0.0");
  expect(licenseOf("MIT")).toEqual({ license: { id: "MIT" } });
  expect(licenseOf("MIT OR Apache-2.0")).toEqual({ expression: "MIT OR Apache-2.0" });
  expect(licenseOf("SEE LICENSE IN FILE")).toEqual({ license: { name: "SEE LICENSE IN FILE" } });
});

test("Bun, llama.cpp and Python are listed under their own names, and the list has no time of the clock", () => {
  const dir = mkdtempSync(join(tmpdir(), "verk-sbom-"));
  const files = ["libllama.v1.so", "python.wasm", "libstdc++.so.6"].map((name) => join(dir, name));
  for (const file of files) writeFileSync(file, file);
  const executable = new TextEncoder().encode("program");
  const contents = { root: ROOT, platform: PLATFORMS.x64, files };
  const options = { version: "1.2.3", seconds: 1_800_000_000, executable, ingredients: ingredientsOf(contents) };
  const list = sbom(options);
  expect(sbom(options)).toEqual(list);
  expect(list.components.map(({ name }) => name)).toEqual(
    expect.arrayContaining(["bun", "llama.cpp", "cpython", "libstdc++.so.6", "verk-tiny.gguf"]),
  );
  for (const { file, licence } of manifest.models)
    expect(list.components.find(({ name }) => name === basename(file))?.licenses).toEqual([licenseOf(licence)]);
  expect(list.metadata.timestamp).toBe("2027-01-15T08:00:00.000Z");
  expect(list.serialNumber).toMatch(/^urn:uuid:[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/);
  expect(() => ingredientsOf({ ...contents, files: [] })).toThrow("no libllama.so");
  rmSync(dir, { recursive: true });
});

const BUILT = join(ROOT, "dist/verk.cdx.json");
test.skipIf(!existsSync(BUILT))(
  "each component of the executable has a license and a hash, and each package a version",
  () => {
    const { components } = JSON.parse(readFileSync(BUILT, "utf8")) as { components: Component[] };
    expect(components.length).toBeGreaterThan(80);
    expect(new Set(components.map((each) => each["bom-ref"])).size).toBe(components.length);
    for (const { name, version, purl, hashes, licenses } of components) {
      expect({ name, hashes, licenses }).toEqual({
        name,
        hashes: [
          { alg: expect.stringMatching(/^SHA-(256|512)$/), content: expect.stringMatching(/^([\da-f]{64}){1,2}$/) },
        ],
        licenses: [expect.anything()],
      });
      if (purl !== undefined) expect(purl).toEndWith(`@${version}`);
    }
    const names = components.map(({ name }) => name);
    for (const name of ["bun", "llama.cpp", "cpython", "zod", "preact", "onnxruntime-node", "pyodide"])
      expect(names).toContain(name);
    expect(names).not.toContain("typescript");
  },
);
