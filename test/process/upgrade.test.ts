// tier: all (checks of a release)
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { generateKey, publicKeyLine } from "../../src/platform/updates/minisign/keys.ts";
import { readStamp } from "../../src/platform/updates/stamp.ts";
import { writeBundle } from "../../src/platform/updates/write_bundle.ts";
import { program } from "../cli.ts";
import { tempDir } from "../harness.ts";
import { newerBuild, releaseKey } from "../release_kit.ts";
import { randomFor, sweep } from "../sweep.ts";

const [binary = "", ...source] = program();
const root = tempDir();
afterAll(() => rmSync(root, { recursive: true, force: true }));

const key = releaseKey();
const bundle = join(root, "newer.bundle");
let newer = "";
let count = 0;

/** A machine: a program, settings that trust the key, and a data directory with a key in it. */
function machine() {
  const dir = join(root, String(count++));
  const [verk, data, config] = [join(dir, "verk"), join(dir, "data"), join(dir, "verk.toml")];
  mkdirSync(data, { recursive: true });
  linkSync(join(root, "installed"), verk);
  writeFileSync(config, `[updates]\ntrusted_keys = ["${publicKeyLine(key)}"]\n`);
  const run = (args: string[], env: Record<string, string> = {}) => {
    const child = Bun.spawnSync([verk, ...args], {
      env: { HOME: dir, PATH: process.env["PATH"] ?? "", ...env },
      cwd: dir,
    });
    return { code: child.exitCode, out: child.stdout.toString(), err: child.stderr.toString() };
  };
  const where = ["--config", config, "--data", data];
  expect(run(["keys", "create", ...where])).toMatchObject({ code: 0 });
  return {
    dir,
    data,
    verk,
    where,
    run,
    upgrade: (env?: Record<string, string>, file = bundle, ...more: string[]) =>
      run(["upgrade", file, ...where, "--service", "none", ...more], env),
    rollback: (...more: string[]) => run(["rollback", ...where, "--service", "none", ...more]),
    version: () => readStamp(verk).version,
    schema: () => schemaOf(join(data, "verk.db")),
    break: (how: "start" | "ready" | "soon") => writeFileSync(join(data, "broken"), how),
  };
}

function schemaOf(path: string): number {
  const db = new Database(path, { readonly: true });
  const { user_version } = db.query("PRAGMA user_version").get() as { user_version: number };
  db.close();
  return user_version;
}

const hasBinary = source.length === 0;
if (!hasBinary) console.error("dist/verk is missing: the tests of upgrades are skipped");
const now = hasBinary ? readStamp(binary) : { version: "", database_version: 0 };

describe.skipIf(!hasBinary)("verk upgrade", () => {
  beforeAll(async () => {
    newer = newerBuild();
    copyFileSync(binary, join(root, "installed"));
    await writeBundle({ out: bundle, executables: [newer], contents: [], key });
  }, 300_000);

  test("installs the release, migrates, and `verk rollback` brings back program and database", () => {
    const m = machine();
    const keys = m.run(["keys", "list", ...m.where]).out;
    expect(m.upgrade()).toMatchObject({ code: 0, out: expect.stringContaining("verk 9.9.9 is installed") });
    expect([m.version(), m.schema()]).toEqual(["9.9.9", 9_000]);
    expect(statSync(m.verk).mode & 0o777).toBe(0o755); // the service is another user than the one who upgrades
    expect(m.upgrade()).toMatchObject({ code: 0, out: expect.stringContaining("already installed") });

    expect(m.rollback()).toMatchObject({ code: 2, err: expect.stringContaining("--yes") });
    expect(m.version()).toBe("9.9.9");
    expect(m.rollback("--yes")).toMatchObject({ code: 0, out: expect.stringContaining("is back") });
    expect([m.version(), m.schema()]).toEqual([now.version, now.database_version]);
    expect(m.run(["keys", "list", ...m.where]).out).toBe(keys);
    expect(schemaOf(join(m.data, "backups/replaced-9000.db"))).toBe(9_000);
    expect(m.rollback()).toMatchObject({ code: 2, err: expect.stringContaining("no upgrade") });
  });

  test.each(["start", "ready", "soon"] as const)("goes back by itself if the new version fails: %s", (how) => {
    const m = machine();
    const keys = m.run(["keys", "list", ...m.where]).out;
    m.break(how);
    const { code, err } = m.upgrade();
    expect([code, err]).toEqual([1, expect.stringContaining(`verk ${now.version} is back.`)]);
    expect(err).toContain(how === "start" ? "broken on purpose" : "The database is as before");
    expect([m.version(), m.schema()]).toEqual([now.version, now.database_version]);
    expect(m.run(["keys", "list", ...m.where]).out).toBe(keys);
  });

  test("refuses a changed, a foreign and an older bundle before anything is touched", async () => {
    const m = machine();
    const bytes = readFileSync(bundle);
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 4;
    const wrong = join(root, "wrong.bundle");
    writeFileSync(wrong, bytes);
    expect(m.upgrade({}, wrong)).toMatchObject({ code: 5, err: expect.stringContaining("does not match the signed") });
    writeFileSync(wrong, bytes.subarray(0, bytes.length - 4096));
    expect(m.upgrade({}, wrong)).toMatchObject({ code: 5, err: expect.stringContaining("not complete") });
    await writeBundle({ out: wrong, executables: [newer], contents: [], key: generateKey() });
    expect(m.upgrade({}, wrong)).toMatchObject({ code: 5, err: expect.stringContaining("not trusted here") });
    await writeBundle({ out: wrong, executables: [binary], contents: [], key });
    rmSync(m.verk);
    linkSync(newer, m.verk);
    expect(m.upgrade({}, wrong)).toMatchObject({
      code: 5,
      err: expect.stringContaining("older than the installed 9.9.9"),
    });
    expect(existsSync(`${m.verk}.next`) || existsSync(`${m.verk}.previous`)).toBe(false);
    expect([m.version(), m.schema()]).toEqual(["9.9.9", now.database_version]);
  });

  test("a program built with --release-key trusts that key without any setting, and no other", async () => {
    const verify = (file: string) => Bun.spawnSync([newer, "bundle", "verify", file], { env: { HOME: root } });
    expect(verify(bundle).exitCode).toBe(0);
    expect(Bun.spawnSync([binary, "bundle", "verify", bundle], { env: { HOME: root } }).exitCode).not.toBe(0);
    const foreign = join(root, "foreign.bundle");
    await writeBundle({ out: foreign, executables: [newer], contents: [], key: generateKey() });
    expect(verify(foreign)).toMatchObject({ exitCode: 5 });
  });

  test("a kill at any point leaves a program that runs, and the next command settles the rest", () => {
    const random = randomFor("kills of an upgrade");
    for (let i = 0; i < sweep({ quick: 1, full: 30 }); i++) {
      const point = 1 + Math.floor(random() * 14);
      const m = machine();
      m.upgrade({ VERK_FAILPOINT: `*:${point}` });
      expect(m.run(["version"]).code, `killed at ${point}`).toBe(0);
      const isNew = m.version() === "9.9.9";
      const result = isNew ? m.rollback("--yes") : m.upgrade();
      expect(result, `after the kill at ${point}`).toMatchObject({ code: 0 });
      expect(m.version()).toBe(isNew ? now.version : "9.9.9");
      expect(m.run(["keys", "list", ...m.where]), `keys after the kill at ${point}`).toMatchObject({ code: 0 });
    }
  });

  test("a service is stopped, started and watched through systemctl", () => {
    const m = machine();
    const fake = join(m.dir, "bin");
    mkdirSync(fake);
    const serve = `"${m.verk}" serve ${m.where.join(" ")} --listen 127.0.0.1:0`;
    const script = [
      "#!/bin/sh",
      `echo "$@" >> "${m.dir}/calls"`,
      'case "$1" in',
      `start) ${serve} >/dev/null 2>&1 & echo $! > "${m.dir}/pid" ;;`,
      `stop) if [ -e "${m.dir}/pid" ]; then kill "$(cat "${m.dir}/pid")" 2>/dev/null; rm "${m.dir}/pid"; fi ;;`,
      `show) if kill -0 "$(cat "${m.dir}/pid")" 2>/dev/null; then echo ActiveState=active; else echo ActiveState=failed; fi ;;`,
      "esac",
      "exit 0",
    ];
    writeFileSync(join(fake, "systemctl"), `${script.join("\n")}\n`);
    chmodSync(join(fake, "systemctl"), 0o755);
    const env = { PATH: `${fake}:${process.env["PATH"]}` };
    const by = ["--service", "verk"];
    m.run(["help"], env);
    m.break("start");
    const failed = m.run(["upgrade", bundle, ...m.where, ...by], env);
    expect(failed).toMatchObject({ code: 1, err: expect.stringContaining("journalctl -u verk") });
    expect(m.version()).toBe(now.version);
    rmSync(join(m.data, "broken"));
    expect(m.run(["upgrade", bundle, ...m.where, ...by], env)).toMatchObject({ code: 0 });
    expect(JSON.parse(readFileSync(join(m.data, "server.json"), "utf8"))).toMatchObject({ version: "9.9.9" });
    expect(m.run(["rollback", "--yes", ...m.where, ...by], env)).toMatchObject({ code: 0 });
    expect(JSON.parse(readFileSync(join(m.data, "server.json"), "utf8"))).toMatchObject({ version: now.version });
    expect(Bun.spawnSync([join(fake, "systemctl"), "stop", "verk"]).exitCode).toBe(0);
    expect(readFileSync(join(m.dir, "calls"), "utf8")).toContain(
      "stop verk\nreset-failed verk\nstart --no-block verk\n",
    );
  });
});
