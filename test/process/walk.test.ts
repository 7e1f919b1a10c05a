/**
 * A closed lab from the first file to the second machine: install from a signed bundle, sign in, train, back up, upgrade,
 * fail, restore. The machine has a real systemd and no network; the service and its users are not root.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { readStamp } from "../../src/platform/updates/stamp.ts";
import { writeBundle } from "../../src/platform/updates/write_bundle.ts";
import { CHROMIUM } from "../browser.ts";
import { tempDir, until } from "../harness.ts";
import { CLIENT } from "../oidc_kit.ts";
import { NEWER, newerBuild, RELEASE_KEY, releaseBuild, releaseKey } from "../release_kit.ts";
import { IS_FULL } from "../sweep.ts";
import { bootSystemd, type Machine, whyNoSystemd } from "./systemd_kit.ts";
import { differences } from "./walk_compare.ts";

const ROOT = resolve(import.meta.dir, "../..");
const PROVIDER_PORT = 9400;
const OIDC = `
[oidc]
issuer = "http://127.0.0.1:${PROVIDER_PORT}"
client_id = "${CLIENT.id}"
client_secret_file = "/etc/verk/oidc_secret"
scopes = ["openid", "profile", "email", "groups"]
roles = ["admins=admin"]
`;
const FIRST = { dir: "/var/lib/verk", origin: "http://localhost:7070" };
const SECOND = { dir: "/srv/second", origin: "http://localhost:7171" };

const reason = whyNoSystemd() ?? (CHROMIUM === null ? "there is no chromium" : undefined);
if (reason !== undefined) console.warn(`skipped: the walk of a closed lab: ${reason}`);

describe.skipIf(reason !== undefined || !IS_FULL)("a closed lab", () => {
  const files = tempDir();
  const [first, newer] = [join(files, "first.bundle"), join(files, "newer.bundle")];
  let machine: Machine;
  let installed: { version: string; schema: number };
  let key = "";
  let user: { id: string; email: string };

  beforeAll(async () => {
    const [program, next, signer] = [releaseBuild(), newerBuild(), releaseKey()];
    const stamp = readStamp(program);
    installed = { version: stamp.version, schema: stamp.database_version };
    await writeBundle({ out: first, executables: [program], contents: [], key: signer });
    await writeBundle({ out: newer, executables: [next], contents: [], key: signer });
    machine = await bootSystemd([files]);
  }, 300_000);
  afterAll(async () => {
    await machine?.stop();
    rmSync(files, { recursive: true, force: true });
  });

  const run = (...argv: string[]) => machine.run(argv);
  const root = (...args: string[]) => run("/usr/local/bin/verk", ...args);
  const write = (file: string, text: string) => writeFileSync(machine.path(file), text, { mode: 0o644 });
  /** A command of a person who has a key and no rights on the machine. */
  const person = ({ origin }: { origin: string }, ...args: string[]) =>
    run(
      ...["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "env", "--chdir=/tmp"],
      ...[`VERK_URL=${origin}`, `VERK_API_KEY=${key}`, "/usr/local/bin/verk", ...args],
    );
  const signIn = ({ origin }: { origin: string }, ...more: string[]) =>
    JSON.parse(run(process.execPath, join(import.meta.dir, "walk_sign_in.ts"), origin, String(PROVIDER_PORT), ...more));
  const service = (name: string) => run("systemctl", "show", "verk", `--property=${name}`, "--value").trim();
  const version = () => JSON.parse(root("version", "--json")) as { version: string; database_version: number };
  const schema = () => {
    const read = `new (require("bun:sqlite").Database)("${FIRST.dir}/verk.db").query("PRAGMA user_version").get().user_version`;
    return Number(run(process.execPath, "-p", read));
  };
  /** The work as a person and the operator see it. */
  const seen = (at: { origin: string; dir: string }) => [
    person(at, "jobs", "get", "vowels", "--json"),
    person(at, "jobs", "metrics", "vowels", "--json"),
    person(at, "datasets", "list", "--json"),
    person(at, "volumes", "ls", "lab", "--json"),
    root("models", "show", "vowels", "--json", "--data", at.dir),
    person(at, "jobs", "logs", "vowels"),
  ];

  test("the machine has no network", () => {
    expect(run("ls", "/sys/class/net").trim()).toBe("lo");
  });

  test("install.sh installs a signed bundle, and the service runs as its own user", () => {
    run(join(ROOT, "install.sh"), "--from", first, "--key", RELEASE_KEY, "--no-start");
    write("/etc/verk/oidc_secret", `${CLIENT.secret}\n`);
    write("/etc/verk/config.toml", `data_dir = "/var/lib/verk"\n${OIDC}`);
    run("systemctl", "start", "verk");
    expect(service("ActiveState")).toBe("active");
    expect(run("ps", "-o", "user=", "-p", service("MainPID")).trim()).toBe("verk");
    expect(version().version).toBe(installed.version);
  }, 60_000);

  test("a person signs in through the provider in a browser, and makes a key", () => {
    ({ user, key } = signIn(FIRST, "laptop"));
    expect(user.email).toBe("ada@example.com");
    expect(key).toMatch(/^vk_/);
  }, 60_000);

  test("trains a model and keeps files", async () => {
    const rows = Array.from({ length: 8 }, (_, i) => JSON.stringify({ prompt: `What is ${i} + ${i}?` }));
    write("/tmp/sums.jsonl", `${rows.join("\n")}\n`);
    write(
      "/tmp/vowels.js",
      "export const reward = ({ completions }) => completions.map((text) => (text.match(/[aeiou0-4]/g) ?? []).length);\n",
    );
    const sizes = ["max_completion_length=8", "per_device_train_batch_size=8", "num_generations=4", "max_steps=3"];
    person(
      FIRST,
      ...["jobs", "create", "--model", "verk-tiny", "--method", "grpo", "--output", "vowels", "--seed", "7"],
      ...["--dataset", "/tmp/sums.jsonl", "--reward", "/tmp/vowels.js", "--watch"],
      ...sizes.flatMap((each) => ["--set", each]),
    );
    person(FIRST, "volumes", "create", "lab");
    person(FIRST, "volumes", "cp", "/tmp/sums.jsonl", "lab:sums.jsonl");
    await until("the model", () => root("models", "list", "--json").includes("vowels"));
  }, 120_000);

  let before: string[];
  test("makes a backup while the server runs", () => {
    before = seen(FIRST);
    run("sh", "-c", "umask 077; head -c 24 /dev/urandom | base64 >/etc/verk/passphrase");
    root("backup", "create", "--to", "/srv/backups", "--jobs", "--passphrase-file", "/etc/verk/passphrase");
    root("backup", "verify", "--from", "/srv/backups", "--passphrase-file", "/etc/verk/passphrase");
  }, 60_000);

  test("upgrades to a newer schema by the key inside the program, and goes back", () => {
    expect(root("upgrade", newer)).toContain(`verk ${NEWER.version} is installed`);
    expect([version().version, schema()]).toEqual([NEWER.version, NEWER.schema]);
    expect(seen(FIRST)).toEqual(before);
    expect(root("rollback", "--yes")).toContain("is back");
    expect([version().version, schema()]).toEqual([installed.version, installed.schema]);
    expect(service("ActiveState")).toBe("active");
  }, 120_000);

  test("an upgrade that breaks after it changed the database goes back by itself", () => {
    write("/var/lib/verk/broken", "ready\n");
    const told = machine.run(["/usr/local/bin/verk", "upgrade", newer], { mayFail: true });
    expect(told).toContain(`verk ${installed.version} is back.`);
    expect(told).toContain("The database is as before");
    expect([version().version, schema()]).toEqual([installed.version, installed.schema]);
    expect(service("ActiveState")).toBe("active");
    expect(seen(FIRST)).toEqual(before);
    run("rm", "/var/lib/verk/broken");
  }, 120_000);

  test("a second machine has everything from the backup", () => {
    root(
      "backup",
      "restore",
      "--from",
      "/srv/backups",
      "--to",
      SECOND.dir,
      "--passphrase-file",
      "/etc/verk/passphrase",
    );
    run("systemctl", "stop", "verk");
    const [one, other] = [join(files, "one"), join(files, "other")];
    run("cp", "--archive", FIRST.dir, one);
    run("cp", "--archive", SECOND.dir, other);
    expect(differences(one, other)).toEqual([]);
  }, 60_000);

  test("its server shows the same work to the same person", () => {
    run("chown", "-R", "verk:verk", SECOND.dir);
    const serve = ["serve", "--config", "/etc/verk/config.toml", "--data", SECOND.dir, "--listen", "127.0.0.1:7171"];
    run("systemd-run", "--unit=second", "--uid=verk", "--property=Type=notify", "/usr/local/bin/verk", ...serve);
    expect(seen(SECOND)).toEqual(before);
    expect(signIn(SECOND).user.id).toBe(user.id);
  }, 60_000);
});
