/** Everything of others inside an executable. The list of components and the license texts are both made from this. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { Platform } from "../../src/native/platform/index.ts";
import { PARTS } from "./license_table.ts";
import { githubPurl, type NpmPackage, npmPurl, packagesOf } from "./npm_packages.ts";

/** A library inside a component. `version` is unknown where the package does not state it. */
export type Part = { name: string; version: string | undefined; license: string };
export type Ingredient = {
  type: "library" | "platform" | "machine-learning-model";
  /** Names it in the list of components. */
  ref: string;
  name: string;
  version?: string;
  purl?: string;
  hash: Hash;
  /** An SPDX expression. */
  license: string;
  parts: readonly Part[];
  /** The folder with its license files. */
  folder?: string;
};
export type Hash = { alg: "SHA-256" | "SHA-512"; content: string };
export type Contents = {
  root: string;
  platform: Platform;
  /** Every source file that the bundler read, and every embedded file. */
  files: readonly string[];
};

const GCC_LICENSE = "GPL-3.0-or-later WITH GCC-exception-3.1";
export const sha256 = (content: Uint8Array): Hash => ({
  alg: "SHA-256",
  content: createHash("sha256").update(content).digest("hex"),
});
/** npm writes hashes as `sha512-` and base64. */
const sha512 = (integrity: string): Hash => ({
  alg: "SHA-512",
  content: Buffer.from(integrity.replace("sha512-", ""), "base64").toString("hex"),
});

export const ingredientsOf = ({ root, platform, files }: Contents): Ingredient[] =>
  [
    bunOf(root, platform),
    ...sourcesOf(root, files),
    ...packagesOf(root, files).map(npmIngredient),
    ...runtimesOf(files),
    ...modelsOf(root),
  ].sort((a, b) => (a.ref < b.ref ? -1 : 1));

/** `versions`: of the parts that the package names itself; each of them needs a license in the table. */
function partsOf(name: string, versions: Readonly<Record<string, string>> = {}): Part[] {
  const known = PARTS[name] ?? {};
  const unknown = Object.keys(versions).find((part) => known[part] === undefined);
  if (unknown) throw new Error(`${name} contains ${unknown}: add its license to scripts/packages/license_table.ts`);
  return Object.entries(known).map(([part, license]) => ({ name: part, version: versions[part], license }));
}

function npmIngredient({ name, version, license, integrity, versions, folder }: NpmPackage): Ingredient {
  const purl = npmPurl(name, version);
  const parts = partsOf(name, versions);
  return { type: "library", ref: purl, name, version, purl, hash: sha512(integrity), license, parts, folder };
}

/** scripts/lib.sh pins Bun's package by its hash. */
function bunOf(root: string, { machine, bun }: Platform): Ingredient {
  const script = readFileSync(join(root, "scripts/lib.sh"), "utf8");
  const version = /^BUN_VERSION=(\S+)$/m.exec(script)?.[1];
  const integrity = new RegExp(`^ *${machine}\\) echo (sha512-\\S+)`, "m").exec(script)?.[1];
  if (!version || !integrity) throw new Error(`scripts/lib.sh has no version or no hash of Bun for ${machine}`);
  const purl = npmPurl(bun.package, version);
  const parts = partsOf("bun");
  return { type: "platform", ref: purl, name: "bun", version, purl, hash: sha512(integrity), license: "MIT", parts };
}

/** Programs inside npm packages, which those who look for known defects search by their own names. */
function sourcesOf(root: string, files: readonly string[]): Ingredient[] {
  const json = (path: string) => JSON.parse(readFileSync(join(root, "node_modules", path), "utf8"));
  const llama = json("node-llama-cpp/llama/llama.cpp.info.json") as { tag: string };
  const python = (json("pyodide/pyodide-lock.json") as { info: { python: string } }).info.python;
  const library = files.find((file) => /\/libllama\.(v[\d.]+\.)?so$/.test(file));
  const interpreter = files.find((file) => file.endsWith("/python.wasm"));
  if (!library || !interpreter) throw new Error("the executable has no libllama.so or no python.wasm");
  const source = (name: string, repository: string, version: string, license: string, file: string): Ingredient => {
    const purl = githubPurl(repository, version);
    return { type: "library", ref: purl, name, version, purl, hash: sha256(readFileSync(file)), license, parts: [] };
  };
  return [
    source("llama.cpp", "ggml-org/llama.cpp", llama.tag, "MIT", library),
    source("cpython", "python/cpython", `v${python}`, "Python-2.0", interpreter),
  ];
}

/** The runtimes of C and C++ come from the machine that builds. The C library is inside the static helpers. */
const runtimesOf = (files: readonly string[]): Ingredient[] =>
  [
    { name: "libgcc_s.so.1", within: "libgcc_s.so.1", license: GCC_LICENSE },
    { name: "libstdc++.so.6", within: "libstdc++.so.6", license: GCC_LICENSE },
    { name: "glibc", within: "verk-jail", license: "LGPL-2.1-or-later" },
  ].flatMap(({ name, within, license }) => {
    const file = files.find((each) => each.endsWith(`/${within}`));
    if (!file) return [];
    return [{ type: "library", ref: `file:${name}`, name, hash: sha256(readFileSync(file)), license, parts: [] }];
  });

type ModelList = { models: readonly { file: string; licence: string }[] };

/** models/manifest.json states the licences. */
function modelsOf(root: string): Ingredient[] {
  const { models } = JSON.parse(readFileSync(join(root, "models/manifest.json"), "utf8")) as ModelList;
  return [...new Bun.Glob("models/*/*.{onnx,gguf}").scanSync(root)].sort().map((path) => {
    const name = basename(path);
    const license = models.find(({ file }) => `models/${file}` === path)?.licence;
    if (!license) throw new Error(`models/manifest.json names no licence of ${name}`);
    const hash = sha256(readFileSync(join(root, path)));
    return { type: "machine-learning-model", ref: path, name, hash, license, parts: [], folder: root };
  });
}
