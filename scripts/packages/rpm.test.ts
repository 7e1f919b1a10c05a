import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PLATFORMS } from "../../src/native/platform/index.ts";
import { packageWorld, run, type World } from "../../test/packages_kit.ts";
import { rpmName, writeRpm } from "./rpm.ts";
import { RPM_SCRIPTS } from "./scripts.ts";

const hasRpm = Bun.which("rpm") !== null;
const isRoot = process.getuid?.() === 0;

let world: World;
let file: string;
beforeEach(async () => {
  world = packageWorld();
  file = join(world.dir, rpmName(world.release));
  writeFileSync(file, await writeRpm(world.release));
});
afterEach(() => rmSync(world.dir, { recursive: true, force: true }));

const rpm = (...words: string[]) => run(["rpm", "--dbpath", join(world.dir, "db"), ...words]);

test.skipIf(!hasRpm)("rpm verifies the digests, and refuses a package with one changed bit", () => {
  expect(rpm("-K", file)).toEqual({ code: 0, out: `${file}: digests OK\n`, err: "" });
  const content = readFileSync(file);
  for (const at of [content.length - 100, 4_000]) {
    const changed = Buffer.from(content);
    changed[at]! ^= 1;
    writeFileSync(file, changed);
    expect(rpm("-K", file).code).not.toBe(0);
  }
});

test.skipIf(!hasRpm)("rpm reads the fields, the files and the scripts", () => {
  const about = rpm("-qpi", file).out;
  for (const part of [
    /Name +: verk\n/,
    /Version +: 1\.2\.3\n/,
    /License +: Apache-2\.0\n/,
    /Build Host +: localhost\n/,
  ])
    expect(about).toMatch(part);
  expect(rpm("-qpl", file).out.trim().split("\n")).toEqual([
    "/etc/verk",
    "/etc/verk/config.toml",
    "/usr/bin/verk",
    "/usr/lib/systemd/system/verk.service",
    "/usr/share/bash-completion/completions/verk",
    "/usr/share/doc/verk",
    "/usr/share/doc/verk/CHANGELOG.md",
    "/usr/share/doc/verk/NOTICE",
    "/usr/share/doc/verk/examples",
    "/usr/share/doc/verk/examples/config.toml",
    "/usr/share/fish/vendor_completions.d/verk.fish",
    "/usr/share/licenses/verk",
    "/usr/share/licenses/verk/LICENSE",
    "/usr/share/man/man1/verk.1.gz",
    "/usr/share/zsh/site-functions/_verk",
  ]);
  expect(rpm("-qpc", file).out).toBe("/etc/verk/config.toml\n");
  const scripts = rpm("-qp", "--scripts", file).out;
  for (const part of ["preinstall", "useradd --system", "postinstall", "preuninstall", "postuninstall", "/bin/sh"])
    expect(scripts).toContain(part);
  expect(rpm("-qp", "--requires", file).out).toContain("libc.so.6(GLIBC_2.34)(64bit)");
});

test.skipIf(!hasRpm || !isRoot)(
  "rpm installs the package below another root, and finds no difference afterwards",
  () => {
    const root = join(world.dir, "root");
    mkdirSync(join(root, "etc"), { recursive: true });
    writeFileSync(join(root, "etc/passwd"), "root:x:0:0::/root:/bin/sh\nverk:x:990:990::/var/lib/verk:/bin/false\n");
    writeFileSync(join(root, "etc/group"), "root:x:0:\nverk:x:990:\n");
    const inRoot = (...words: string[]) => run(["rpm", "--root", root, ...words]);
    // Debian's rpm writes on standard error that packages of Debian are better there
    expect(inRoot("-i", "--nodeps", "--noscripts", file)).toMatchObject({ code: 0, out: "" });
    expect(inRoot("-V", "--nodeps", "verk")).toMatchObject({ code: 0, out: "" });
    expect(run([join(root, "usr/bin/verk")]).out).toBe("verk\n");
    const { mode, gid } = statSync(join(root, "etc/verk/config.toml"));
    expect([mode & 0o777, gid]).toEqual([0o640, 990]);
  },
);

test.each(Object.entries(RPM_SCRIPTS))("the script %s is valid shell and removes no data", (name, text) => {
  writeFileSync(join(world.dir, name), text);
  expect(run(["sh", "-n", join(world.dir, name)])).toEqual({ code: 0, out: "", err: "" });
  expect(text).not.toMatch(/\b(rm|userdel)\b/);
});

test("the same release gives the same bytes, and another architecture its own name", async () => {
  expect(Buffer.from(await writeRpm(world.release)).equals(readFileSync(file))).toBe(true);
  expect(rpmName({ ...world.release, platform: PLATFORMS.arm64 })).toBe("verk-1.2.3-1.aarch64.rpm");
  expect(rpmName({ ...world.release, version: "1.3.0-rc.1" })).toContain("verk-1.3.0~rc.1-1.");
});
