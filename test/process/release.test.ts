// tier: all (checks of a release)
/** A whole release from another checkout. It needs Debian's cross compiler, as the build for the other architecture does. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { PLATFORMS, type Platform, platform } from "../../src/native/platform/index.ts";
import { sha256File } from "../../src/platform/files.ts";
import { generateKey, publicKeyFile, readPublicKey, secretKeyFile } from "../../src/platform/updates/minisign/keys.ts";
import { isSigned, readSignature } from "../../src/platform/updates/minisign/signature.ts";
import { readStamp } from "../../src/platform/updates/stamp.ts";
import { checkoutOf, machineOf, sh } from "../release_kit.ts";

const ROOT = resolve(import.meta.dir, "../..");
const VERSION = "9.8.7";
const other = Object.values(PLATFORMS).find(({ arch }) => arch !== platform.arch) as Platform;
const canBuild = Bun.which(other.cross.gcc) !== null && existsSync(join(other.cross.root, "lib/libstdc++.so.6"));

describe.skipIf(!canBuild || Bun.which("git") === null)(`a release (needs ${other.cross.packages.join(", ")})`, () => {
  mkdirSync(join(ROOT, "dist"), { recursive: true });
  const temp = mkdtempSync(join(ROOT, "dist/release-"));
  afterAll(() => rmSync(temp, { recursive: true, force: true }));
  const copy = join(temp, "checkout");
  const keyFile = join(temp, "throwaway.key");
  const key = generateKey();
  const git = (...args: string[]) =>
    sh("git", "-C", copy, "-c", "user.name=Ada Lovelace", "-c", "user.email=ada@example.com", ...args);
  const commitAll = () => {
    git("add", "--all");
    git("commit", "--quiet", "--no-verify", "--message", "test: a commit to release");
  };

  function release(...args: string[]) {
    const { VERK_SIGNING_KEY: _, ...env } = process.env;
    const argv = [process.execPath, "scripts/release.ts", ...args, "--fast"];
    const run = Bun.spawnSync(argv, { cwd: copy, env, stderr: "pipe" });
    return { code: run.exitCode, out: run.stdout.toString(), err: run.stderr.toString() };
  }
  const folders = () => (existsSync(join(copy, "dist/release")) ? readdirSync(join(copy, "dist/release")) : []);

  beforeAll(() => {
    checkoutOf("HEAD", copy);
    symlinkSync(join(ROOT, ".tools"), join(copy, ".tools"));
    appendFileSync(join(copy, ".git/info/exclude"), "node_modules\n.stage\n.tools\n");
    const packages = join(ROOT, ".stage", other.name, "packages");
    if (existsSync(packages)) {
      mkdirSync(join(copy, ".stage", other.name));
      sh("cp", "--archive", packages, join(copy, ".stage", other.name));
    }
    const changelog = readFileSync(join(copy, "CHANGELOG.md"), "utf8");
    const section = `## ${VERSION} (2026-11-18)\n\nOne sentence.\n\n### Added\n\n- A thing.\n\n## `;
    writeFileSync(join(copy, "CHANGELOG.md"), changelog.replace(/^## (?=\d)/m, section));
    writeFileSync(keyFile, secretKeyFile(key));
    commitAll();
  }, 120_000);

  test("is refused before anything is built, and leaves nothing", () => {
    expect(release()).toMatchObject({ code: 1, err: expect.stringContaining("name one version") });
    expect(release("8.8.8")).toMatchObject({ code: 1, err: expect.stringContaining('no section "## 8.8.8"') });
    writeFileSync(join(copy, "left.txt"), "");
    expect(release(VERSION)).toMatchObject({ code: 1, err: expect.stringContaining("?? left.txt") });
    rmSync(join(copy, "left.txt"));
    expect(release(VERSION, "--key", join(copy, "LICENSE"))).toMatchObject({
      code: 1,
      err: expect.stringContaining("not a secret key"),
    });
    expect(folders()).toEqual([]);
  }, 120_000);

  test("leaves nothing when a build fails", () => {
    writeFileSync(join(copy, "src/native/jail/broken.c"), "#error broken on purpose\n");
    commitAll();
    expect(release(VERSION)).toMatchObject({ code: 1, err: expect.stringContaining("broken on purpose") });
    expect(folders()).toEqual([]);
    git("reset", "--quiet", "--hard", "HEAD~1");
  }, 300_000);

  test("has executables, packages, the bundle, components, licenses, notes, sums and a signature", async () => {
    const made = release(VERSION, "--key", keyFile, "--maintainer", "Ada Lovelace <ada@example.com>");
    expect(made).toMatchObject({ code: 0, out: expect.stringContaining("Signed with the key") });
    expect(folders()).toEqual([VERSION]);
    const dir = join(copy, "dist/release", VERSION);
    const at = (name: string) => join(dir, name);
    const executableOf = ({ name }: Platform) => `verk-${VERSION}-${name}`;
    const ofPlatform = (each: Platform) => [
      executableOf(each),
      `${executableOf(each)}.cdx.json`,
      `${executableOf(each)}.licenses.txt`,
      `${executableOf(each)}.oci.tar`,
      `verk_${VERSION}_${each.debian}.deb`,
      `verk-${VERSION}-1.${each.machine}.rpm`,
    ];
    const common = ["RELEASE_NOTES.md", "SHA256SUMS", "SHA256SUMS.minisig", "verk.pub", `verk-${VERSION}.bundle`];
    const names = [...common, ...Object.values(PLATFORMS).flatMap(ofPlatform)].sort();
    expect(readdirSync(dir).sort()).toEqual(names);

    const sums = readFileSync(at("SHA256SUMS"));
    const lines = sums.toString().trimEnd().split("\n");
    expect(lines.map((line) => line.slice(66))).toEqual(names.filter((name) => !name.startsWith("SHA256SUMS")));
    for (const line of lines) expect(await sha256File(at(line.slice(66)))).toBe(line.slice(0, 64));
    const signature = readSignature(readFileSync(at("SHA256SUMS.minisig"), "utf8"));
    expect(isSigned(sums, signature, [readPublicKey(publicKeyFile(key))])).toBe(true);
    expect(readFileSync(at("verk.pub"), "utf8")).toBe(publicKeyFile(key));

    for (const each of Object.values(PLATFORMS)) {
      expect(machineOf(at(executableOf(each)))).toBe(each.elfMachine);
      expect(readStamp(at(executableOf(each)))).toMatchObject({ version: VERSION, target: each.name });
      const components = JSON.parse(readFileSync(at(`${executableOf(each)}.cdx.json`), "utf8")) as unknown;
      expect(components).toMatchObject({ bomFormat: "CycloneDX", metadata: { component: { version: VERSION } } });
    }
    expect(readFileSync(at("RELEASE_NOTES.md"), "utf8")).toBe(
      `# Verk ${VERSION}\n\nOne sentence.\n\n### Added\n\n- A thing.\n`,
    );

    const own = at(executableOf(platform));
    expect(sh(own, "version")).toStartWith(`verk ${VERSION} `);
    expect(sh(own, "licenses")).toBe(readFileSync(`${own}.licenses.txt`, "utf8"));
    // the executable trusts the key that signed the release
    const inside = sh(own, "bundle", "verify", at(`verk-${VERSION}.bundle`));
    for (const each of Object.values(PLATFORMS)) expect(inside).toContain(`verk-${each.name}`);
    expect(release(VERSION)).toMatchObject({ code: 1, err: expect.stringContaining("exists") });
  }, 1_800_000);
});
