/** Releases for tests: builds with a key of their own inside, a build with a newer schema, and signed bundles of both. */
import { closeSync, cpSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { writeFileAtomicSync } from "../src/platform/files.ts";
import {
  generateKey,
  publicKeyFile,
  readSecretKey,
  type SecretKey,
  secretKeyFile,
} from "../src/platform/updates/minisign/keys.ts";

const ROOT = resolve(import.meta.dir, "..");
const dist = (name: string) => join(ROOT, "dist", name);

export const RELEASE_KEY = dist("test-release.pub");
export const NEWER = { version: "9.9.9", schema: 9_000 };

/** Builds, unless nothing has changed since the last build. Throws if the build fails. */
export function build(out: string, options: readonly string[], { root = ROOT, fast = true } = {}): string {
  const speed = fast ? ["--fast"] : [];
  const argv = [process.execPath, "scripts/build.ts", ...speed, "--if-stale", ...options, "--out", out];
  const run = Bun.spawnSync(argv, { cwd: root, stdout: "ignore", stderr: "pipe" });
  if (!run.success) throw new Error(`the build of ${out} failed: ${run.stderr}`);
  return out;
}

/** Made once for a checkout: another key would be another build. */
export function releaseKey(): SecretKey {
  const file = dist("test-release.key");
  if (!existsSync(file)) writeFileAtomicSync(file, secretKeyFile(generateKey()));
  const key = readSecretKey(readFileSync(file, "utf8"));
  writeFileAtomicSync(RELEASE_KEY, publicKeyFile(key), { mode: 0o644 });
  return key;
}

/** This source as a release: it trusts the key. */
export const releaseBuild = () => withKey("verk-release", []);

/** A release with a newer schema. */
export const newerBuild = () =>
  withKey("verk-newer", [
    ...["--entry", "test/fixtures/newer_build.ts", "--version", NEWER.version],
    ...["--database-version", String(NEWER.schema)],
  ]);

function withKey(name: string, options: readonly string[]): string {
  releaseKey();
  return build(dist(name), ["--release-key", RELEASE_KEY, ...options]);
}

/** Runs a command in this checkout. Throws if it fails. */
export function sh(...argv: string[]): string {
  const run = Bun.spawnSync(argv, { cwd: ROOT, stderr: "pipe" });
  if (!run.success) throw new Error(`${argv.join(" ")}: ${run.stderr}`);
  return run.stdout.toString();
}

/**
 * Another checkout of this source at `commit`, in the folder `copy`, which is on the same file system. It compiles everything
 * again. Only compressed libraries are shared: they are named by the hash of their content, and compressing them takes
 * minutes.
 */
export function checkoutOf(commit: string, copy: string): string {
  sh("git", "clone", "--quiet", "--shared", "--no-checkout", ROOT, copy);
  sh("git", "-C", copy, "update-ref", "--no-deref", "HEAD", sh("git", "rev-parse", commit).trim());
  const files = sh("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0");
  const isSource = (file: string) => !/^$|^test\/|\.test\.ts$/.test(file) && existsSync(join(ROOT, file));
  for (const file of files.filter(isSource)) {
    mkdirSync(dirname(join(copy, file)), { recursive: true });
    cpSync(join(ROOT, file), join(copy, file));
  }
  sh("cp", "--archive", "--link", join(ROOT, "node_modules"), copy);
  mkdirSync(join(copy, ".stage"));
  for (const name of readdirSync(join(ROOT, ".stage")).filter((each) => each.endsWith("-19.zst")))
    cpSync(join(ROOT, ".stage", name), join(copy, ".stage", name));
  return copy;
}

/** The processor that the header of an ELF file names. Undefined for a file that is no ELF file. */
export function machineOf(path: string): number | undefined {
  const header = Buffer.alloc(20);
  const fd = openSync(path, "r");
  readSync(fd, header, 0, header.length, 0);
  closeSync(fd);
  return header.readUInt32BE(0) === 0x7f454c46 ? header.readUInt16LE(18) : undefined;
}
