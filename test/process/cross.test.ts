// tier: all (checks of a release)
/**
 * The executable for the other architecture, built on this one. Its C parts need Debian's cross compiler, and starting
 * it needs qemu-user; without these the tests are skipped by name.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { version } from "../../package.json";
import { nativeGroups, sha256 } from "../../scripts/bundle/natives.ts";
import { openTarget } from "../../scripts/bundle/target.ts";
import { PLATFORMS, type Platform, platform } from "../../src/native/platform/index.ts";
import { machineOf } from "../release_kit.ts";

const ROOT = resolve(import.meta.dir, "../..");
const other = Object.values(PLATFORMS).find(({ arch }) => arch !== platform.arch) as Platform;
const BINARY = join(ROOT, "dist/fast", `verk-${other.name}`);
const canBuild = Bun.which(other.cross.gcc) !== null && existsSync(join(other.cross.root, "lib/libstdc++.so.6"));
const qemu = [`qemu-${other.machine}`, `qemu-${other.machine}-static`].find((name) => Bun.which(name) !== null);

describe.skipIf(!canBuild)(`the executable for ${other.name} (needs ${other.cross.packages.join(", ")})`, () => {
  beforeAll(() => {
    const build = [
      process.execPath,
      "scripts/build.ts",
      "--target",
      other.name,
      "--out",
      BINARY,
      "--fast",
      "--if-stale",
    ];
    const run = Bun.spawnSync(build, { cwd: ROOT, stderr: "pipe" });
    if (!run.success) throw new Error(run.stderr.toString());
  }, 900_000);

  test("is for that machine, and so is every library inside", () => {
    expect(machineOf(BINARY)).toBe(other.elfMachine);
    const groups = nativeGroups({ root: ROOT, target: openTarget(ROOT, other), cudaDir: undefined });
    const files = Object.values(groups).flat();
    const machines = files.map(({ path }) => machineOf(path)).filter((machine) => machine !== undefined);
    expect(machines.length).toBeGreaterThan(10);
    expect(new Set(machines)).toEqual(new Set([other.elfMachine]));
    const own = nativeGroups({ root: ROOT, target: openTarget(ROOT, platform), cudaDir: undefined });
    expect(Object.keys(groups)).toEqual(Object.keys(own));
    const executable = readFileSync(BINARY);
    const missing = files.filter(({ path }) => !executable.includes(sha256(readFileSync(path))));
    expect(missing).toEqual([]);
  });

  test("has its checksum beside it", () => {
    const [want] = readFileSync(`${BINARY}.sha256`, "utf8").split(" ");
    expect(sha256(readFileSync(BINARY))).toBe(want as string);
    expect(statSync(BINARY).mode & 0o111).not.toBe(0);
  });

  test.skipIf(qemu === undefined)(
    "starts under emulation (needs qemu-user)",
    () => {
      const run = Bun.spawnSync([qemu ?? "", "-L", other.cross.root, BINARY, "version"], { stderr: "pipe" });
      expect(run.stderr.toString()).toBe("");
      expect(run.stdout.toString()).toStartWith(`verk ${version} `);
    },
    300_000,
  );
});

test("an unknown --target is refused with the known ones", () => {
  const run = Bun.spawnSync([process.execPath, "scripts/build.ts", "--target", "windows"], {
    cwd: ROOT,
    stderr: "pipe",
  });
  expect(run.exitCode).toBe(1);
  expect(run.stderr.toString()).toContain("--target: expected linux-x64 or linux-arm64, not windows");
});
