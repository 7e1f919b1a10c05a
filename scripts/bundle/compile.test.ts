import { afterEach, beforeEach, expect, test } from "bun:test";
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PLATFORMS, type Platform, platform } from "../../src/native/platform/index.ts";
import { buildShim } from "./shim.ts";

const ROOT = join(import.meta.dir, "../..");
const other = Object.values(PLATFORMS).find(({ arch }) => arch !== platform.arch) as Platform;
const elfMachine = (path: string) => readFileSync(path).readUInt16LE(18);

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "verk-compile-"));
  for (const name of ["shim", "platform"])
    cpSync(join(ROOT, "src/native", name), join(dir, "src/native", name), { recursive: true });
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

test("a part is compiled for this machine, and again only when a source or a header changes", () => {
  const path = buildShim(dir);
  expect(elfMachine(path)).toBe(platform.elfMachine);
  const made = () => statSync(path).ino;
  const first = made();
  buildShim(dir);
  expect(made()).toBe(first);
  for (const file of ["shim/shim.c", "platform/arch.h"]) {
    const before = made();
    writeFileSync(join(dir, "src/native", file), `${readFileSync(join(dir, "src/native", file))}\n`);
    buildShim(dir);
    expect(made()).not.toBe(before);
  }
});

test.skipIf(Bun.which(other.cross.gcc) === null)(
  "a part for the other architecture lies in a folder of its own",
  () => {
    const path = buildShim(dir, other);
    expect(path).toBe(join(dir, ".stage", other.name, "shim/verk-shim.so"));
    expect(elfMachine(path)).toBe(other.elfMachine);
  },
);

test.each([
  [platform, "apt-get install gcc libc6-dev"],
  [other, `apt-get install ${other.cross.packages.join(" ")}`],
])("without a compiler the error names the packages: %#", (target, packages) => {
  const script = `
    import { buildShim } from ${JSON.stringify(join(import.meta.dir, "shim.ts"))};
    import { PLATFORMS } from ${JSON.stringify(join(ROOT, "src/native/platform/index.ts"))};
    buildShim(${JSON.stringify(dir)}, PLATFORMS[${JSON.stringify(target.arch)}]);`;
  const run = Bun.spawnSync([process.execPath, "-e", script], { env: { PATH: dir }, stderr: "pipe" });
  expect(run.exitCode).not.toBe(0);
  expect(run.stderr.toString()).toContain(`no C compiler for ${target.name}`);
  expect(run.stderr.toString()).toContain(packages);
});
