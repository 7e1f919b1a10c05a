/** The list of components of an executable, in the format CycloneDX 1.6: `dist/verk.cdx.json`. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { Platform } from "../../src/native/platform/index.ts";
import { githubPurl, type NpmPackage, npmPurl, packagesOf } from "./npm_packages.ts";

export type SbomOptions = {
  root: string;
  platform: Platform;
  version: string;
  seconds: number;
  executable: Uint8Array;
  /** Every source file that the bundler read, and every embedded file. */
  files: readonly string[];
};

type Hash = { alg: "SHA-256" | "SHA-512"; content: string };
type License = { expression: string } | { license: { id: string } | { name: string } };
export type Component = {
  type: "application" | "library" | "platform" | "machine-learning-model";
  "bom-ref": string;
  name: string;
  version?: string;
  purl?: string;
  hashes?: Hash[];
  licenses?: License[];
  components?: Component[];
};

const GCC_LICENSE = "GPL-3.0-or-later WITH GCC-exception-3.1";
const sha256 = (content: Uint8Array): Hash => ({
  alg: "SHA-256",
  content: createHash("sha256").update(content).digest("hex"),
});
/** npm writes hashes as `sha512-` and base64. */
const sha512 = (integrity: string): Hash => ({
  alg: "SHA-512",
  content: Buffer.from(integrity.replace("sha512-", ""), "base64").toString("hex"),
});

export function licenseOf(text: string): License {
  if (/ (AND|OR|WITH) /.test(text)) return { expression: text };
  return { license: /^[\w.+-]+$/.test(text) ? { id: text } : { name: text } };
}

export function sbom({ root, platform, version, seconds, executable, files }: SbomOptions) {
  const hash = sha256(executable);
  const npm = packagesOf(root, files).map(npmComponent);
  const components = [
    bunOf(root, platform),
    ...sourcesOf(root, files),
    ...npm,
    ...runtimesOf(files),
    ...modelsOf(root),
  ];
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${uuidFrom(hash.content)}`,
    version: 1,
    metadata: {
      timestamp: new Date(seconds * 1000).toISOString(),
      component: {
        type: "application",
        "bom-ref": "verk",
        name: "verk",
        version,
        hashes: [hash],
        licenses: [licenseOf("Apache-2.0")],
      } satisfies Component,
    },
    components: components.sort((a, b) => (a["bom-ref"] < b["bom-ref"] ? -1 : 1)),
  };
}

/** The same executable has the same number. Version 8 is for uses of one's own. */
const uuidFrom = (hex: string) =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;

function npmComponent({ name, version, license, integrity, parts }: NpmPackage): Component {
  const purl = npmPurl(name, version);
  const inside = Object.entries(parts).map(([part, number]): Component => {
    const own = `pkg:generic/${part}@${number}`;
    return { type: "library", "bom-ref": `${purl}#${part}`, name: part, version: number, purl: own };
  });
  return {
    type: "library",
    "bom-ref": purl,
    name,
    version,
    purl,
    hashes: [sha512(integrity)],
    licenses: [licenseOf(license)],
    ...(inside.length === 0 ? {} : { components: inside }),
  };
}

/** scripts/lib.sh pins Bun's package by its hash. */
function bunOf(root: string, { machine, bun }: Platform): Component {
  const script = readFileSync(join(root, "scripts/lib.sh"), "utf8");
  const version = /^BUN_VERSION=(\S+)$/m.exec(script)?.[1];
  const integrity = new RegExp(`^ *${machine}\\) echo (sha512-\\S+)`, "m").exec(script)?.[1];
  if (!version || !integrity) throw new Error(`scripts/lib.sh has no version or no hash of Bun for ${machine}`);
  const purl = npmPurl(bun.package, version);
  return {
    type: "platform",
    "bom-ref": purl,
    name: "bun",
    version,
    purl,
    hashes: [sha512(integrity)],
    licenses: [licenseOf("MIT")],
  };
}

/** Programs inside npm packages, which those who look for known defects search by their own names. */
function sourcesOf(root: string, files: readonly string[]): Component[] {
  const json = (path: string) => JSON.parse(readFileSync(join(root, "node_modules", path), "utf8"));
  const llama = json("node-llama-cpp/llama/llama.cpp.info.json") as { tag: string };
  const python = (json("pyodide/pyodide-lock.json") as { info: { python: string } }).info.python;
  const library = files.find((file) => /\/libllama\.(v[\d.]+\.)?so$/.test(file));
  const interpreter = files.find((file) => file.endsWith("/python.wasm"));
  if (!library || !interpreter) throw new Error("the executable has no libllama.so or no python.wasm");
  const source = (name: string, repository: string, version: string, license: string, file: string): Component => {
    const purl = githubPurl(repository, version);
    const hashes = [sha256(readFileSync(file))];
    return { type: "library", "bom-ref": purl, name, version, purl, hashes, licenses: [licenseOf(license)] };
  };
  return [
    source("llama.cpp", "ggml-org/llama.cpp", llama.tag, "MIT", library),
    source("cpython", "python/cpython", `v${python}`, "Python-2.0", interpreter),
  ];
}

/** The C++ runtime comes from the machine that builds. */
const runtimesOf = (files: readonly string[]): Component[] =>
  ["libgcc_s.so.1", "libstdc++.so.6"].flatMap((name) => {
    const file = files.find((each) => each.endsWith(`/${name}`));
    if (!file) return [];
    const hashes = [sha256(readFileSync(file))];
    return [{ type: "library", "bom-ref": `file:${name}`, name, hashes, licenses: [licenseOf(GCC_LICENSE)] }];
  });

type ModelList = { models: readonly { file: string; licence: string }[] };

/** models/manifest.json states the licences. */
function modelsOf(root: string): Component[] {
  const { models } = JSON.parse(readFileSync(join(root, "models/manifest.json"), "utf8")) as ModelList;
  return [...new Bun.Glob("models/*/*.{onnx,gguf}").scanSync(root)].sort().map((path) => {
    const name = basename(path);
    const licence = models.find(({ file }) => `models/${file}` === path)?.licence;
    if (!licence) throw new Error(`models/manifest.json names no licence of ${name}`);
    const hashes = [sha256(readFileSync(join(root, path)))];
    return { type: "machine-learning-model", "bom-ref": path, name, hashes, licenses: [licenseOf(licence)] };
  });
}
