import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { generateKey, publicKeyFile } from "../../src/platform/updates/minisign/keys.ts";
import { stampText } from "../../src/platform/updates/stamp.ts";
import { writeBundle } from "../../src/platform/updates/write_bundle.ts";

const INSTALLER = join(import.meta.dir, "../../install.sh");

let dir: string;
let root: string;
let release: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "verk-install-"));
  root = join(dir, "root");
  release = join(dir, "verk-release");
  writeRelease("first");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function writeRelease(content: string) {
  writeFileSync(release, content);
  writeFileSync(`${release}.sha256`, `${createHash("sha256").update(content).digest("hex")}  verk-release\n`);
}

function install(...args: string[]) {
  const { exitCode, stdout, stderr } = Bun.spawnSync([INSTALLER, ...args, "--root", root], { cwd: dir });
  return { exitCode, stdout: stdout.toString(), stderr: stderr.toString() };
}
const mode = (path: string) => (statSync(join(root, path)).mode & 0o777).toString(8);
const read = (path: string) => readFileSync(join(root, path), "utf8");

test("every file is installed at its path, and the data directory is closed to other users", () => {
  expect(install("--from", release, "--prefix", "/opt/verk")).toMatchObject({ exitCode: 0, stderr: "" });
  expect(read("opt/verk/bin/verk")).toBe("first");
  expect(mode("opt/verk/bin/verk")).toBe("755");
  expect(mode("var/lib/verk")).toBe("700");
  expect(mode("etc/verk/config.toml")).toBe("640");
  expect(Bun.TOML.parse(read("etc/verk/config.toml"))).toEqual({ data_dir: "/var/lib/verk" });
  expect(read("etc/systemd/system/verk.service")).toContain("ExecStart=/opt/verk/bin/verk serve");
});

test("a second run upgrades the program and keeps the settings and the data", () => {
  install("--from", release);
  writeFileSync(join(root, "etc/verk/config.toml"), "# mine\n");
  writeFileSync(join(root, "var/lib/verk/verk.db"), "rows");
  writeRelease("second");
  expect(install("--from", release)).toMatchObject({ exitCode: 0, stderr: "" });
  expect(read("usr/local/bin/verk")).toBe("second");
  expect(read("etc/verk/config.toml")).toBe("# mine\n");
  expect(read("var/lib/verk/verk.db")).toBe("rows");
});

test("a damaged executable is refused and the installed one stays", () => {
  install("--from", release);
  writeFileSync(release, "tampered");
  const { exitCode, stderr } = install("--from", release);
  expect(exitCode).toBe(1);
  expect(stderr).toContain("is damaged");
  expect(read("usr/local/bin/verk")).toBe("first");
});

test("an executable without its checksum is refused with the fix", () => {
  rmSync(`${release}.sha256`);
  expect(install("--from", release)).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("download it from"),
  });
});

test("uninstalling removes the program and the service, and keeps data and settings", () => {
  install("--from", release);
  for (const attempt of ["once", "twice"]) expect(install("uninstall").exitCode, attempt).toBe(0);
  expect(existsSync(join(root, "usr/local/bin/verk"))).toBe(false);
  expect(existsSync(join(root, "etc/systemd/system/verk.service"))).toBe(false);
  expect(existsSync(join(root, "var/lib/verk"))).toBe(true);
  expect(existsSync(join(root, "etc/verk/config.toml"))).toBe(true);
});

test("F30 uninstalling below --root does not propose to remove a user", () => {
  install("--from", release);
  const { stdout } = install("uninstall");
  expect(stdout).toContain(`rm -rf ${root}/var/lib/verk ${root}/etc/verk\n`);
  expect(stdout).not.toContain("user");
});

test("a wrong argument is named and nothing is written", () => {
  const { exitCode, stderr } = install("--form", release);
  expect(exitCode).toBe(1);
  expect(stderr).toContain("unknown argument: --form");
  expect(existsSync(root)).toBe(false);
});

describe("a signed bundle", () => {
  const key = generateKey();
  const bundle = () => join(dir, "verk.bundle");
  const target = `linux-${process.arch}`;
  /** A program for the tests: it prints how it is called. */
  async function writeSigned(content: string) {
    const stamp = {
      version: "9.0.0",
      database_version: 99,
      commit: "abc",
      built_at: "2026-11-17T00:00:00.000Z",
      target,
    };
    writeFileSync(join(dir, "program"), `#!/bin/sh\necho ${content} "$@"\n# ${stampText(stamp)}\n`);
    writeFileSync(join(dir, "release.pub"), publicKeyFile(key));
    await writeBundle({ out: bundle(), executables: [join(dir, "program")], contents: [], key });
  }

  test("the first installation needs its key, and takes the executable of this machine", async () => {
    await writeSigned("first");
    expect(install("--from", bundle())).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining("--key release.pub"),
    });
    expect(install("--from", bundle(), "--key", join(dir, "release.pub"))).toMatchObject({ exitCode: 0 });
    expect(read("usr/local/bin/verk")).toContain("echo first");
  });

  test("a second installation is an upgrade by the installed program", async () => {
    await writeSigned("first");
    install("--from", bundle(), "--key", join(dir, "release.pub"));
    const { stdout } = install("--from", bundle());
    expect(stdout).toContain(`first upgrade ${bundle()} --config ${root}/etc/verk/config.toml`);
  });

  test.skipIf(Bun.which("minisign") === null)("a foreign key or a changed executable installs nothing", async () => {
    await writeSigned("first");
    writeFileSync(join(dir, "foreign.pub"), publicKeyFile(generateKey()));
    const foreign = install("--from", bundle(), "--key", join(dir, "foreign.pub"));
    expect(foreign).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("is not signed with") });
    const bytes = readFileSync(bundle());
    bytes.write("echo other", bytes.indexOf("echo first"));
    writeFileSync(bundle(), bytes);
    const changed = install("--from", bundle(), "--key", join(dir, "release.pub"));
    expect(changed).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("is damaged") });
    expect(existsSync(root)).toBe(false);
  });
});
