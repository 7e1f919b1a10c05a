/** Lists the native files of the executable and generates the module that embeds them. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { constants, zstdCompressSync } from "node:zlib";
import type { EmbeddedFile } from "../../src/native/bundle/embedded.ts";
import { DECODE_FILE } from "../../src/native/cuda/decode/kernels.ts";
import { KERNELS_FILE } from "../../src/native/cuda/kernels.ts";
import { type Platform, platform } from "../../src/native/platform/index.ts";
import { buildConfine } from "./confine.ts";
import { buildJail } from "./jail.ts";
import { decodingKernels, verifiedKernels } from "./kernels.ts";
import { stagePython } from "./python.ts";
import { buildShim } from "./shim.ts";
import type { Target } from "./target.ts";

type Source = { path: string; rel: string };
type Row = EmbeddedFile & { parts: string[] };
export type Staged = { moduleSource: string; rawBytes: number; packedBytes: number; groups: string[] };

const PART_BYTES = 32 << 20;
const LEVEL = 19;
/** Packs in seconds instead of a minute. For executables that are only tested. */
export const FAST_LEVEL = 3;
export const CUDA_LIBRARY = "libggml-cuda.so";
const LLAMA_FILES = /\.(node|so)$|Metadata\.json$/;
/** The same code for several processors: packed together, the files take a third of the space. */
const ALIKE = /\/libggml-cpu-[^/]+\.so$/;

export type GroupOptions = {
  root: string;
  target: Pick<Target, "platform" | "packageDir">;
  /** Holds a libggml-cuda.so: built by scripts/build_cuda, or from the npm package. */
  cudaDir: string | undefined;
};

export function nativeGroups({ root, target: { platform: target, packageDir }, cudaDir }: GroupOptions) {
  const { name } = target;
  const bins = (set: string) => join(packageDir(`@node-llama-cpp/${set}`), "bins", set);
  const sharp = (part: string) => [join(packageDir(`@img/${part}-${name}`), "lib"), `${part}-${name}/lib`] as const;
  const groups: Record<string, Source[]> = {
    // sharp's RPATH is $ORIGIN/../../sharp-libvips-<name>/lib
    sharp: [...filesIn(...sharp("sharp"), /\.node$/), ...filesIn(...sharp("sharp-libvips"), /\.so/)],
    onnx: filesIn(join(packageDir("onnxruntime-node"), "bin/napi-v6/linux", target.arch), "", /\.(node|so)/),
    llama: filesIn(bins(name), name, LLAMA_FILES),
    ...(cudaDir === undefined ? {} : { "llama-cuda": cudaGroup(root, bins(name), `${name}-cuda`, cudaDir) }),
    python: filesIn(stagePython(root), "", /\.(wasm|zip|bin)$/),
    confine: [{ path: buildConfine(root, target), rel: "verk-confine" }],
    jail: [{ path: buildJail(root, target), rel: "verk-jail" }],
    shim: [{ path: buildShim(root, target), rel: "verk-shim.so" }],
    cxx: ["libgcc_s.so.1", "libstdc++.so.6"].map((file) => ({ path: findRuntime(file, target), rel: file })),
  };
  return groups;
}

/**
 * The libraries of the CPU set, which are embedded once for both sets, with the CUDA library beside them: its npm package
 * differs in nothing else, and exists for one architecture only.
 */
function cudaGroup(root: string, bins: string, folder: string, cudaDir: string): Source[] {
  const library = join(cudaDir, CUDA_LIBRARY);
  if (!existsSync(library)) {
    throw new Error(`${library} does not exist; build it with: scripts/build_cuda --out ${cudaDir}`);
  }
  const decoding = decodingKernels(root);
  return [
    ...filesIn(bins, folder, LLAMA_FILES),
    ...(decoding === null ? [] : [{ path: decoding, rel: join(folder, DECODE_FILE) }]),
    { path: library, rel: join(folder, CUDA_LIBRARY) },
    { path: verifiedKernels(root), rel: join(folder, KERNELS_FILE) },
  ];
}

/** A library of the C or C++ runtime, from the machine that builds. */
export function findRuntime(name: string, target: Platform): string {
  const isOwn = target.arch === platform.arch;
  const own = [`/lib/${target.multiarch}`, `/usr/lib/${target.multiarch}`, "/usr/lib64", "/lib64", "/usr/lib"];
  const dir = (isOwn ? own : [join(target.cross.root, "lib")]).find((each) => existsSync(join(each, name)));
  if (dir) return join(dir, name);
  const packages = isOwn ? "libstdc++6 libgcc-s1" : target.cross.packages.join(" ");
  throw new Error(`${name} for ${target.name} is not on this machine; on Debian: apt-get install ${packages}`);
}

function filesIn(dir: string, prefix: string, keep: RegExp): Source[] {
  if (!existsSync(dir)) throw new Error(`${relative(process.cwd(), dir)} is missing; run: bun install`);
  const names = readdirSync(dir)
    .sort()
    .filter((name) => keep.test(name));
  if (names.length === 0)
    throw new Error(`${dir} has no file that matches ${keep}: the layout of the package has changed`);
  return names.map((name) => ({ path: join(dir, name), rel: join(prefix, name) }));
}

/** Compresses into `stageDir`, where a part is named by its content: a second build reuses it, and so does a fast one. */
export function stageNatives(sources: Record<string, Source[]>, stageDir: string, level = LEVEL): Staged {
  mkdirSync(stageDir, { recursive: true });
  const imports = new Map<string, string>(); // staged path → variable; equal files are embedded once
  const tables: string[] = [];
  let rawBytes = 0;
  let packedBytes = 0;
  const stagePart = (slice: Uint8Array) => {
    const name = sha256(slice).slice(0, 32);
    const small = join(stageDir, `${name}-${LEVEL}.zst`);
    const path = existsSync(small) ? small : join(stageDir, `${name}-${level}.zst`);
    const known = imports.get(path);
    if (known) return known;
    if (!existsSync(path)) {
      writeFileSync(`${path}.tmp`, zstdCompressSync(slice, { params: { [constants.ZSTD_c_compressionLevel]: level } }));
      renameSync(`${path}.tmp`, path);
    }
    packedBytes += readFileSync(path).byteLength;
    imports.set(path, `part${imports.size}`);
    return imports.get(path)!;
  };

  for (const [name, files] of Object.entries(sources)) {
    const rows = runsOf(files).flatMap((run) => stageRun(run, stagePart));
    for (const { bytes } of rows) rawBytes += bytes;
    const hash = sha256(JSON.stringify(rows.map(({ rel, bytes, sha256: h }) => [rel, bytes, h]))).slice(0, 16);
    const list = rows.map((r) => {
      const fixed = `rel: ${JSON.stringify(r.rel)}, bytes: ${r.bytes}, sha256: "${r.sha256}"`;
      return `    { ${fixed}, parts: [${r.parts.join(", ")}], from: ${r.from} },`;
    });
    tables.push(`  ${JSON.stringify(name)}: { hash: "${hash}", files: [\n${list.join("\n")}\n  ] },`);
  }
  const lines = [...imports].map(([path, v]) => `import ${v} from ${JSON.stringify(path)} with { type: "file" };`);
  const moduleSource = `${lines.join("\n")}
export const compiled = true;
export const groups = {
${tables.join("\n")}
};
`;
  return { moduleSource, rawBytes, packedBytes, groups: Object.keys(sources) };
}

/** Groups similar files together; any other file is alone. */
function runsOf(files: readonly Source[]): Source[][] {
  const runs: Source[][] = [];
  for (const file of files) {
    const last = runs.at(-1)?.at(-1);
    if (last && ALIKE.test(last.path) && ALIKE.test(file.path)) runs.at(-1)!.push(file);
    else runs.push([file]);
  }
  return runs;
}

function stageRun(run: readonly Source[], stagePart: (slice: Uint8Array) => string): Row[] {
  const contents = run.map(({ path }) => readFileSync(path));
  const whole = contents.length === 1 ? contents[0]! : Buffer.concat(contents);
  if (contents.length > 1 && whole.byteLength > PART_BYTES)
    throw new Error("the similar files are larger than one part");
  const parts: string[] = [];
  for (let at = 0; at < whole.byteLength; at += PART_BYTES) parts.push(stagePart(whole.subarray(at, at + PART_BYTES)));
  let from = 0;
  return run.map(({ rel }, i) => {
    const content = contents[i]!;
    from += contents[i - 1]?.byteLength ?? 0;
    return { rel, bytes: content.byteLength, sha256: sha256(content), parts, from };
  });
}

export const sha256 = (content: string | Uint8Array) => createHash("sha256").update(content).digest("hex");
