/** Releases for tests: builds with a key of their own inside, a build with a newer schema, and signed bundles of both. */
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
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
