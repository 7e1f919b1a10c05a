/**
 * scripts/build [--target linux-x64|linux-arm64] [--cuda DIR] [--out FILE] [--if-stale]: one executable with everything
 * inside, and its sha256. Without --target it is for this machine's architecture.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { version } from "../package.json";
import { bundleDashboard, bundleModule } from "./bundle/dashboard.ts";
import { inputsHash } from "./bundle/inputs.ts";
import { CUDA_LIBRARY, nativeGroups, sha256, stageNatives } from "./bundle/natives.ts";
import { nativePlugin } from "./bundle/rewrites.ts";
import { openTarget, targetPlatform } from "./bundle/target.ts";

const root = dirname(import.meta.dir);
const { values: flags } = parseArgs({
  options: {
    cuda: { type: "string" },
    target: { type: "string" },
    out: { type: "string" },
    entry: { type: "string", default: join(root, "src/main.ts") },
    "if-stale": { type: "boolean", default: false },
  },
});
const target = targetPlatform(flags.target);
const out = resolve(flags.out ?? join(root, "dist", flags.target === undefined ? "verk" : `verk-${target.name}`));
const inputsFile = join(dirname(out), `.${basename(out)}.inputs`);
const cuda = flags.cuda === undefined ? undefined : resolve(flags.cuda);
const cudaFile = cuda && statSync(join(cuda, CUDA_LIBRARY), { throwIfNoEntry: false });
const inputs = inputsHash(
  root,
  JSON.stringify([cudaFile && [cudaFile.size, cudaFile.mtimeMs], relative(root, resolve(flags.entry)), target.name]),
);
const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;

const isFresh = () =>
  existsSync(out) && existsSync(inputsFile) && readFileSync(inputsFile, "utf8") === `${inputs} ${statSync(out).size}`;

function git(...args: string[]): string | undefined {
  if (!Bun.which("git")) return undefined;
  const run = Bun.spawnSync(["git", "-C", root, ...args], { stderr: "ignore" });
  return run.success ? run.stdout.toString().trim() : undefined;
}

/** The time of the commit, not of the clock, so that the same commit gives the same bytes. */
function builtAt(): string {
  const epochSeconds = Number(process.env["SOURCE_DATE_EPOCH"] ?? git("log", "-1", "--format=%ct") ?? 0);
  return new Date(epochSeconds * 1000).toISOString();
}

async function build() {
  const startedAt = performance.now();
  const opened = openTarget(root, target);
  const { bun } = opened;
  const staged = stageNatives(nativeGroups({ root, target: opened, cudaDir: cuda }), join(root, ".stage"));
  const dashboard = bundleModule(await bundleDashboard(root));
  // A separate directory for parallel builds, but always the same file name, because the name is in the executable.
  const tempDir = join(dirname(out), `.build-${process.pid}`);
  const temp = join(tempDir, "verk");
  mkdirSync(tempDir, { recursive: true });
  let nativesEmbedded = false;
  const seen = () => {
    nativesEmbedded = true;
  };
  const result = await Bun.build({
    // threads start from their own files
    entrypoints: [
      flags.entry,
      ...["serving/engine/thread/thread.ts", "detector/lane.ts"].map((file) => join(root, "src/workers", file)),
    ],
    root: join(root, "src"),
    compile: {
      outfile: temp,
      autoloadDotenv: false,
      autoloadBunfig: false,
      ...(bun === undefined ? {} : { target: target.bun.target, executablePath: bun }),
    },
    format: "esm",
    splitting: true,
    bytecode: bun === undefined, // bytecode works only on the architecture of the Bun that builds it
    minify: { syntax: true, whitespace: true },
    define: {
      "process.env.NODE_ENV": '"production"',
      VERK_COMMIT: JSON.stringify(git("rev-parse", "--short=12", "HEAD") ?? "unknown"),
      VERK_BUILT_AT: JSON.stringify(builtAt()),
    },
    plugins: [nativePlugin({ root, target, embedded: staged.moduleSource, groups: staged.groups, dashboard, seen })],
    throw: false,
  });
  if (!result.success || !nativesEmbedded) {
    for (const log of result.logs) console.error(log);
    if (result.success) console.error("the program does not import src/native, so the libraries were not embedded");
    rmSync(tempDir, { recursive: true, force: true });
    process.exit(1);
  }
  const executable = readFileSync(temp);
  writeFileSync(`${out}.sha256`, `${sha256(executable)}  ${basename(out)}\n`);
  renameSync(temp, out);
  rmSync(tempDir, { recursive: true, force: true });
  writeFileSync(inputsFile, `${inputs} ${executable.byteLength}`);
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  const natives = `${staged.groups.join(", ")}: ${megabytes(staged.rawBytes)} as ${megabytes(staged.packedBytes)}`;
  console.log(`verk ${version}: ${out} ${megabytes(executable.byteLength)} (${natives}) in ${seconds} s`);
}

if (flags["if-stale"] && isFresh()) console.log(`${out} is up to date`);
else await build();
