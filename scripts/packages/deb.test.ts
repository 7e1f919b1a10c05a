// tier: all (checks of a release)
import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PLATFORMS } from "../../src/native/platform/index.ts";
import { packageWorld, pretendCommands, run, type World } from "../../test/packages_kit.ts";
import { debName, writeDeb } from "./deb.ts";
import { changelogDate, packageVersion } from "./debian_texts.ts";
import { DEBIAN_SCRIPTS } from "./scripts.ts";

const lacks = (...names: string[]) => names.some((name) => Bun.which(name) === null);
const isRoot = process.getuid?.() === 0;

let world: World;
let file: string;
beforeEach(async () => {
  world = packageWorld();
  file = join(world.dir, debName(world.release));
  writeFileSync(file, await writeDeb(world.release));
});
afterEach(() => rmSync(world.dir, { recursive: true, force: true }));

test.skipIf(lacks("dpkg-deb"))("dpkg-deb reads the fields, the scripts and every file", () => {
  const about = run(["dpkg-deb", "-I", file]).out;
  for (const part of ["Package: verk", "Version: 1.2.3", "postinst", "prerm", "postrm", "conffiles", "md5sums"])
    expect(about).toContain(part);
  const list = run(["dpkg-deb", "-c", file]).out;
  for (const path of [
    "-rwxr-xr-x 0/0              20 2023-11-14 22:13 ./usr/bin/verk",
    "./usr/lib/systemd/system/verk.service",
    "./usr/share/man/man1/verk.1.gz",
    "./usr/share/bash-completion/completions/verk",
    "./usr/share/zsh/vendor-completions/_verk",
    "./usr/share/fish/vendor_completions.d/verk.fish",
    "./usr/share/doc/verk/NOTICE",
    "./usr/share/doc/verk/copyright",
    "./usr/share/doc/verk/changelog.gz",
    "./usr/share/doc/verk/examples/config.toml",
    "./etc/verk/config.toml",
  ])
    expect(list).toContain(path);
});

test.skipIf(lacks("lintian"))("lintian finds no error and no warning", () => {
  const { code, out, err } = run(["lintian", "--allow-root", "--fail-on", "error,warning", file]);
  expect({ code, out, err }).toEqual({ code: 0, out: "", err: "" });
});

test.skipIf(lacks("dpkg") || !isRoot)("dpkg unpacks the package below another root, with the unit for /usr/bin", () => {
  const root = join(world.dir, "root");
  for (const dir of ["info", "updates", "triggers"]) mkdirSync(join(root, "var/lib/dpkg", dir), { recursive: true });
  writeFileSync(join(root, "var/lib/dpkg/status"), "");
  const ended = run(["dpkg", `--root=${root}`, "--force-depends", "--force-architecture", "--unpack", file]);
  expect({ code: ended.code, err: ended.err }).toEqual({ code: 0, err: expect.not.stringContaining("error") });
  expect(run([join(root, "usr/bin/verk")]).out).toBe("verk\n");
  const unit = readFileSync(join(root, "usr/lib/systemd/system/verk.service"), "utf8");
  expect(unit).toContain("ExecStart=/usr/bin/verk serve --config /etc/verk/config.toml");
  // every other file has its sum; dpkg installs settings only when it configures the package
  expect(run(["dpkg", `--root=${root}`, "-V", "verk"]).out).toBe("missing   c /etc/verk/config.toml\n");
  expect(statSync(join(root, "etc/verk/config.toml.dpkg-new")).mode & 0o777).toBe(0o640);
});

const COMMANDS = ["useradd", "usermod", "install", "chown", "deb-systemd-helper", "deb-systemd-invoke", "systemctl"];

function callsOf(name: keyof typeof DEBIAN_SCRIPTS, argument: string, failing: string[] = []): string[] {
  const bin = pretendCommands(world.dir, [...COMMANDS, "getent"], failing);
  const log = join(world.dir, "calls");
  rmSync(log, { force: true });
  const script = join(world.dir, name);
  writeFileSync(script, DEBIAN_SCRIPTS[name]);
  const { code, err } = run(["sh", script, argument], { PATH: `${bin}:/usr/bin:/bin` });
  expect({ code, err }).toEqual({ code: 0, err: "" });
  return existsSync(log) ? readFileSync(log, "utf8").trim().split("\n") : [];
}

test("the script after the installation creates the user, the data directory and the service", () => {
  const calls = callsOf("postinst", "configure", ["getent"]);
  expect(calls).toContain(
    "useradd --system --user-group --home-dir /var/lib/verk --no-create-home --shell /usr/sbin/nologin verk",
  );
  expect(calls).toContain("install -d -m 0700 -o verk -g verk /var/lib/verk");
  expect(calls).toContain("chown root:verk /etc/verk/config.toml");
  expect(calls).toContain("deb-systemd-helper enable verk.service");
  const again = callsOf("postinst", "configure");
  expect(again.filter((call) => call.startsWith("useradd"))).toEqual([]);
  expect(again).toContain("usermod -aG render verk");
  expect(callsOf("postinst", "abort-upgrade")).toEqual([]);
});

test("a service that an administrator has disabled stays disabled", () => {
  const calls = callsOf("postinst", "configure", ["deb-systemd-helper"]);
  expect(calls).toContain("deb-systemd-helper update-state verk.service");
  expect(calls).not.toContain("deb-systemd-helper enable verk.service");
});

test("a purge forgets the service, and no script removes data", () => {
  expect(callsOf("postrm", "purge")).toContain("deb-systemd-helper purge verk.service");
  for (const text of Object.values(DEBIAN_SCRIPTS)) expect(text).not.toMatch(/\b(rm|userdel)\b/);
});

test("the same release gives the same bytes, and another architecture its own name", async () => {
  const again = await writeDeb(world.release);
  expect(Buffer.from(again).equals(readFileSync(file))).toBe(true);
  expect(debName({ ...world.release, platform: PLATFORMS.arm64 })).toBe("verk_1.2.3_arm64.deb");
});

test("a version before a release is sorted before it", () => {
  expect(packageVersion("0.2.0-rc.1")).toBe("0.2.0~rc.1");
  expect(changelogDate(0)).toBe("Thu, 01 Jan 1970 00:00:00 +0000");
});
