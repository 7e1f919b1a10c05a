/**
 * scripts/build [--target linux-x64|linux-arm64] [--cuda DIR] [--out FILE] [--release-key FILE] [--version VERSION]
 * [--if-stale] [--fast] [--packages] [--maintainer "NAME <ADDRESS>"]: one executable with everything inside, its sha256,
 * its list of components and its license texts. Without --target it is for this machine's architecture. --release-key:
 * the public key (minisign) whose bundles the program installs. --fast compresses less. --packages: also a .deb, an .rpm
 * and an image.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { version as ownVersion } from "../package.json";
import { allTexts } from "../src/cli/text/licenses.ts";
import { MIGRATIONS } from "../src/platform/db/migrations/index.ts";
import { publicKeyLine, readPublicKey } from "../src/platform/updates/minisign/keys.ts";
import { stampText } from "../src/platform/updates/stamp.ts";
import { bundleDashboard, bundleModule } from "./bundle/dashboard.ts";
import { inputsHash } from "./bundle/inputs.ts";
import { licensesModule } from "./bundle/licenses.ts";
import { CUDA_LIBRARY, FAST_LEVEL, nativeGroups, sha256, stageNatives } from "./bundle/natives.ts";
import { bundledFiles, MAIN, PRODUCTION, programConfig } from "./bundle/program.ts";
import { nativePlugin } from "./bundle/rewrites.ts";
import { openTarget, targetPlatform } from "./bundle/target.ts";
import { ingredientsOf } from "./packages/components.ts";
import { licensesOf } from "./packages/licenses.ts";
import { sbom } from "./packages/sbom.ts";

const root = dirname(import.meta.dir);
const { values: flags } = parseArgs({
  options: {
    cuda: { type: "string" },
    target: { type: "string" },
    out: { type: "string" },
    entry: { type: "string", default: join(root, MAIN) },
    "if-stale": { type: "boolean", default: false },
    fast: { type: "boolean", default: false },
    packages: { type: "boolean", default: false },
    maintainer: { type: "string" },
    "release-key": { type: "string" },
    version: { type: "string", default: ownVersion },
    "database-version": { type: "string", default: String(MIGRATIONS.at(-1)?.version) },
  },
});
const target = targetPlatform(flags.target);
const { version } = flags;
const keyFile = flags["release-key"];
const releaseKey = keyFile === undefined ? "" : publicKeyLine(readPublicKey(readFileSync(keyFile, "utf8")));
const out = resolve(flags.out ?? join(root, "dist", flags.target === undefined ? "verk" : `verk-${target.name}`));
const sbomFile = `${out}.cdx.json`;
const licensesFile = `${out}.licenses.txt`;
const inputsFile = join(dirname(out), `.${basename(out)}.inputs`);
const cuda = flags.cuda === undefined ? undefined : resolve(flags.cuda);
const cudaFile = cuda && statSync(join(cuda, CUDA_LIBRARY), { throwIfNoEntry: false });
const inputs = inputsHash(
  root,
  JSON.stringify([
    cudaFile && [cudaFile.size, cudaFile.mtimeMs],
    ...[relative(root, resolve(flags.entry)), sha256(readFileSync(flags.entry))],
    target.name,
    flags.fast,
    ...[releaseKey, version, flags["database-version"]],
  ]),
);
const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;

const isFresh = () =>
  [out, sbomFile, licensesFile, inputsFile].every((file) => existsSync(file)) &&
  readFileSync(inputsFile, "utf8") === `${inputs} ${statSync(out).size}`;

function git(...args: string[]): string | undefined {
  if (!Bun.which("git")) return undefined;
  const run = Bun.spawnSync(["git", "-C", root, ...args], { stderr: "ignore" });
  return run.success ? run.stdout.toString().trim() : undefined;
}

/** The time of the commit, not of the clock, so that the same commit gives the same bytes. */
const seconds = Number(process.env["SOURCE_DATE_EPOCH"] ?? git("log", "-1", "--format=%ct") ?? 0);
const builtAt = new Date(seconds * 1000).toISOString();

async function build() {
  const startedAt = performance.now();
  const opened = openTarget(root, target);
  const { bun } = opened;
  const natives = nativeGroups({ root, target: opened, cudaDir: cuda });
  const staged = stageNatives(natives, join(root, ".stage"), flags.fast ? FAST_LEVEL : undefined);
  const files = await bundledFiles({ root, entry: flags.entry, target: opened, natives });
  const ingredients = ingredientsOf({ root, platform: target, files });
  const licenses = licensesOf(root, version, ingredients);
  const modules = {
    embedded: staged.moduleSource,
    dashboard: bundleModule(await bundleDashboard(root)),
    licenses: licensesModule(licenses, join(root, ".stage")),
  };
  // A separate directory for parallel builds, but always the same file name, because the name is in the executable.
  const tempDir = join(dirname(out), `.build-${process.pid}`);
  const temp = join(tempDir, "verk");
  mkdirSync(tempDir, { recursive: true });
  let nativesEmbedded = false;
  const seen = () => {
    nativesEmbedded = true;
  };
  const commit = git("rev-parse", "--short=12", "HEAD") ?? "unknown";
  const database = Number(flags["database-version"]);
  const result = await Bun.build({
    ...programConfig(root, flags.entry),
    compile: {
      outfile: temp,
      autoloadDotenv: false,
      autoloadBunfig: false,
      ...(bun === undefined ? {} : { target: target.bun.target, executablePath: bun }),
    },
    bytecode: bun === undefined, // bytecode works only on the architecture of the Bun that builds it
    minify: { syntax: true, whitespace: true },
    define: {
      ...PRODUCTION,
      VERK_VERSION: JSON.stringify(version),
      VERK_COMMIT: JSON.stringify(commit),
      VERK_BUILT_AT: JSON.stringify(builtAt),
      VERK_RELEASE_KEY: JSON.stringify(releaseKey),
      VERK_STAMP: JSON.stringify(
        stampText({ version, database_version: database, target: target.name, commit, built_at: builtAt }),
      ),
    },
    plugins: [nativePlugin({ root, target, ...modules, groups: staged.groups, seen })],
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
  const components = sbom({ version, seconds, executable, ingredients });
  writeFileSync(sbomFile, `${JSON.stringify(components, null, 2)}\n`);
  writeFileSync(licensesFile, `${allTexts(licenses)}\n`);
  writeFileSync(inputsFile, `${inputs} ${executable.byteLength}`);
  const took = ((performance.now() - startedAt) / 1000).toFixed(1);
  const embedded = `${staged.groups.join(", ")}: ${megabytes(staged.rawBytes)} as ${megabytes(staged.packedBytes)}`;
  console.log(`verk ${version}: ${out} ${megabytes(executable.byteLength)} (${embedded}) in ${took} s`);
}

async function pack() {
  const { writePackages } = await import("./packages/index.ts");
  const author = git("log", "-1", "--format=%an <%ae>");
  const maintainer = flags.maintainer ?? author ?? "Verk <verk@example.com>";
  const release = { root, executable: out, platform: target, version, seconds, maintainer };
  const names = await writePackages(release, dirname(out));
  for (const name of names) console.log(`${join(dirname(out), name)}`);
}

if (flags["if-stale"] && isFresh()) console.log(`${out} is up to date`);
else await build();
if (flags.packages) await pack();
