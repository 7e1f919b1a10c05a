/**
 * scripts/release VERSION [--out DIR] [--key FILE] [--passphrase-file FILE] [--maintainer "NAME <ADDRESS>"] [--fast]: a
 * release of the present commit in one folder. --key: the secret key (minisign) that signs; VERK_SIGNING_KEY names it too,
 * and VERK_SIGNING_PASSPHRASE the file of its passphrase. The executables trust that key. The folder appears when everything
 * in it is complete. --fast compresses less, for tests.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { UsageError } from "../src/lib/errors.ts";
import { PLATFORMS } from "../src/native/platform/index.ts";
import { sha256File } from "../src/platform/files.ts";
import { keyName, publicKeyFile, readSecretKey, type SecretKey } from "../src/platform/updates/minisign/keys.ts";
import { sign } from "../src/platform/updates/minisign/signature.ts";
import { type Content, writeBundle } from "../src/platform/updates/write_bundle.ts";
import { changelogSection } from "./packages/changelog.ts";

const root = dirname(import.meta.dir);
const PUBLIC_KEY = "verk.pub";
const NOTES = "RELEASE_NOTES.md";
const SUMS = "SHA256SUMS";

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    out: { type: "string" },
    key: { type: "string", default: process.env["VERK_SIGNING_KEY"] },
    "passphrase-file": { type: "string", default: process.env["VERK_SIGNING_PASSPHRASE"] },
    maintainer: { type: "string" },
    fast: { type: "boolean", default: false },
  },
});

type Plan = { version: string; out: string; notes: string; key: SecretKey | undefined };

/** Everything that can be refused is refused before the first build. */
function plan(): Plan {
  const [version = "", ...others] = positionals;
  if (!/^\d+\.\d+\.\d+(-[\w.-]+)?$/.test(version) || others.length > 0)
    throw new UsageError("name one version, such as: scripts/release 0.3.0");
  const changed = git("status", "--porcelain");
  if (changed !== "") throw new UsageError(`the work tree is not clean; commit or remove:\n${changed}`);
  const notes = changelogSection(readFileSync(join(root, "CHANGELOG.md"), "utf8"), version);
  if (notes === undefined) throw new UsageError(`CHANGELOG.md has no section "## ${version}": write it and commit it`);
  const out = resolve(flags.out ?? join(root, "dist/release", version));
  if (existsSync(out)) throw new UsageError(`${out} exists: remove it, or name another folder with --out`);
  return { version, out, notes, key: readKey() };
}

function git(...args: string[]): string {
  const run = Bun.spawnSync(["git", "-C", root, ...args], { stderr: "pipe" });
  if (!run.success) throw new UsageError(`git ${args.join(" ")}: ${run.stderr.toString().trim()}`);
  return run.stdout.toString().trimEnd();
}

function readKey(): SecretKey | undefined {
  const { key, "passphrase-file": passphrase } = flags;
  if (key === undefined) return undefined;
  const text = (file: string) => readFileSync(file, "utf8");
  return readSecretKey(text(key), passphrase === undefined ? undefined : text(passphrase).replace(/\r?\n$/, ""));
}

/** An executable with its packages, its list of components and its license texts. The path of the executable. */
function build(dir: string, target: string, { version, key }: Plan): string {
  const out = join(dir, `verk-${version}-${target}`);
  const argv = [
    ...[process.execPath, join(root, "scripts/build.ts"), "--packages"],
    ...["--target", target, "--version", version, "--out", out],
    ...(key === undefined ? [] : ["--release-key", join(dir, PUBLIC_KEY)]),
    ...(flags.maintainer === undefined ? [] : ["--maintainer", flags.maintainer]),
    ...(flags.fast ? ["--fast"] : []),
  ];
  const run = Bun.spawnSync(argv, { cwd: root, stdout: "inherit", stderr: "inherit" });
  if (!run.success) throw new UsageError(`the build for ${target} failed`);
  // one list has the sums of all files
  for (const file of [`${out}.sha256`, join(dir, `.${basename(out)}.inputs`)]) rmSync(file);
  return out;
}

/** The file that `verk upgrade` installs. */
async function bundle(dir: string, executables: readonly string[], version: string, key: SecretKey) {
  const contents: Content[] = executables.flatMap((executable) => [
    { kind: "sbom", path: `${basename(executable)}.cdx.json`, from: `${executable}.cdx.json` },
    { kind: "document", path: `${basename(executable)}.licenses.txt`, from: `${executable}.licenses.txt` },
  ]);
  contents.push({ kind: "document", path: NOTES, from: join(dir, NOTES) });
  await writeBundle({ out: join(dir, `verk-${version}.bundle`), executables, contents, key });
}

async function sumsOf(dir: string): Promise<string> {
  const lines: string[] = [];
  for (const name of readdirSync(dir).sort()) lines.push(`${await sha256File(join(dir, name))}  ${name}\n`);
  return lines.join("");
}

async function fill(dir: string, made: Plan) {
  const { version, notes, key } = made;
  const put = (name: string, text: string) => writeFileSync(join(dir, name), text);
  if (key !== undefined) put(PUBLIC_KEY, publicKeyFile(key));
  put(NOTES, `# Verk ${version}\n\n${notes}\n`);
  const executables = Object.values(PLATFORMS).map(({ name }) => build(dir, name, made));
  if (key !== undefined) await bundle(dir, executables, version, key);
  const sums = await sumsOf(dir);
  put(SUMS, sums);
  if (key !== undefined) put(`${SUMS}.minisig`, sign(new TextEncoder().encode(sums), key, `verk ${version}`));
}

async function release() {
  const made = plan();
  const { out, key } = made;
  const temp = join(dirname(out), `.${basename(out)}-${process.pid}`);
  mkdirSync(temp, { recursive: true });
  try {
    await fill(temp, made);
    renameSync(temp, out);
  } finally {
    rmSync(temp, { recursive: true, force: true });
  }
  console.log(out);
  if (key === undefined)
    console.log(
      "Nothing is signed, and there is no bundle for verk upgrade: name a key with --key or VERK_SIGNING_KEY.",
    );
  else console.log(`Signed with the key ${keyName(key.id)}.`);
}

try {
  await release();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`release: ${error.message}`);
  process.exit(1);
}
