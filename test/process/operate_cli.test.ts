// tier: all (whole paths on the executable)
/** `verk keys rotate-master` and `verk audit` of the executable. */
import { Database } from "bun:sqlite";
import { afterAll, expect, test } from "bun:test";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { keyIdOf, readMasterKey } from "../../src/platform/master_key.ts";
import { startBinary } from "../binary.ts";
import { runVerk } from "../cli.ts";
import { tempDir } from "../harness.ts";

const root = tempDir();
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A stopped server with a sealed text of several kinds. */
async function stoppedServer(name: string) {
  const dir = join(root, name);
  mkdirSync(dir);
  const server = await startBinary({ dir });
  const key = await server.apiKey();
  expect((await server.call("PUT", "/v1/secrets/TOKEN", { value: "s3cret" })).status).toBe(201);
  const hook = await server.call("POST", "/v1/webhooks", { url: "https://example.com/hook", events: ["*"] });
  const { text: secret, status } = await server.call("GET", `/v1/webhooks/${hook.body.id}/secret`);
  expect(status).toBe(200);
  await server.kill("SIGTERM");
  return { dir, key, hook: hook.body.id as string, secret };
}

/** Key id → texts, over every text column of the database. */
function sealers(dir: string): Record<string, number> {
  const db = new Database(join(dir, "verk.db"));
  const found: Record<string, number> = {};
  const columns = db
    .query<{ t: string; c: string }, []>(
      "SELECT m.name AS t, c.name AS c FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE '%\\_fts%' ESCAPE '\\'",
    )
    .all();
  for (const { t, c } of columns)
    for (const { v } of db.query<{ v: unknown }, []>(`SELECT "${c}" AS v FROM "${t}" WHERE "${c}" LIKE 'v1.%'`).all()) {
      const id = /^v1\.([0-9a-f]{8})\./.exec(String(v))?.[1];
      if (id !== undefined) found[id] = (found[id] ?? 0) + 1;
    }
  db.close();
  return found;
}

test("the master key is rotated: every secret is sealed anew, and the server reads them", async () => {
  const { dir, key, hook, secret } = await stoppedServer("rotate");
  const old = readFileSync(join(dir, "master.key"), "utf8");
  const [texts = 0] = Object.values(sealers(dir));
  const done = await runVerk(["keys", "rotate-master", "--data", dir, "--json"], { cwd: root });
  expect([done.code, done.err]).toEqual([0, ""]);
  const { key_id: id, old_file: oldFile, sealed } = done.json();
  expect(sealers(dir)).toEqual({ [id]: texts });
  expect([sealed, texts > 1]).toEqual([texts, true]);
  expect(readFileSync(oldFile, "utf8")).toBe(old);
  expect(readFileSync(join(dir, "master.key"), "utf8")).not.toBe(old);
  expect(statSync(join(dir, "master.key")).mode & 0o777).toBe(0o600);
  const server = await startBinary({ dir, key });
  expect((await server.call("GET", `/v1/webhooks/${hook}/secret`)).text).toBe(secret);
  const held = await runVerk(["keys", "rotate-master", "--data", dir], { cwd: root });
  expect([held.code, held.err]).toEqual([3, expect.stringContaining("stop it first")]);
  const log = await server.call("GET", "/v1/account/audit_log");
  expect(log.body.data.map((entry: { route: string }) => entry.route)).toContain("verk keys rotate-master");
  await server.kill();
}, 120_000);

test("a rotation that is killed anywhere leaves a data directory that opens and can be rotated again", async () => {
  const { dir, key, hook, secret } = await stoppedServer("kill");
  const states = new Set<string>();
  for (let n = 1; ; n++) {
    const copy = join(root, `kill-${n}`);
    cpSync(dir, copy, { recursive: true });
    const env = { VERK_FAILPOINT: `*:${n}` };
    const { code } = await runVerk(["keys", "rotate-master", "--data", copy], { cwd: root, env });
    states.add(
      readdirSync(copy)
        .filter((name) => name.startsWith("master.key"))
        .join(),
    );
    const isWhole = code === 0;
    expect((await runVerk(["keys", "list", "--data", copy], { cwd: root })).code).toBe(0); // ends the rotation if it must
    const current = keyIdOf(readMasterKey(join(copy, "master.key")) as Uint8Array);
    expect(Object.keys(sealers(copy))).toEqual([current]);
    if (isWhole) {
      const server = await startBinary({ dir: copy, key });
      expect((await server.call("GET", `/v1/webhooks/${hook}/secret`)).text).toBe(secret);
      await server.kill();
      break;
    }
    expect((await runVerk(["keys", "rotate-master", "--data", copy], { cwd: root })).code).toBe(0);
    expect(existsSync(join(copy, "master.key.next"))).toBe(false);
    rmSync(copy, { recursive: true });
  }
  expect(states.size).toBe(4); // before, with the next key, with the link to the old one, after
}, 300_000);

test("an audit export grows file by file, and verify names the first broken line", async () => {
  const server = await startBinary({ dir: tempDir() });
  const verk = (...args: string[]) => server.verk(["audit", ...args]);
  const file = join(root, "audit.jsonl");
  for (const name of ["a", "b"]) await server.call("POST", "/v1/volumes", { name });
  expect((await verk("export", "--to", file)).err).toContain("entries exported");
  const first = readFileSync(file, "utf8");
  await server.call("POST", "/v1/volumes", { name: "c" });
  writeFileSync(file, `${first}{"hash":"12`); // as after a kill
  expect((await verk("export", "--to", file)).code).toBe(0);
  const text = readFileSync(file, "utf8");
  expect(text.startsWith(first)).toBe(true);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect((await verk("export", "--to", file)).err).toContain("0 entries");
  expect(readFileSync(file, "utf8")).toBe(text);

  const whole = (await verk("verify", file, "--json")).json();
  const lines = text.trim().split("\n");
  expect(whole).toMatchObject({
    valid: true,
    entries: lines.length - 2,
    last_hash: JSON.parse(lines.at(-1) as string).hash,
  });
  expect(lines.some((line) => line.includes('"path":"/v1/volumes"'))).toBe(true);
  const check = async (kept: string[], ...more: string[]) => {
    writeFileSync(join(root, "other.jsonl"), `${kept.join("\n")}\n`);
    const { code, err } = await runVerk(["audit", "verify", join(root, "other.jsonl"), ...more], { cwd: root });
    return [code, err.replace(/^.*other.jsonl, /, "").split(":")[0]];
  };
  expect(await check(lines, "--last-hash", whole.last_hash, "--public-key", whole.public_keys[0])).toEqual([0, ""]);
  expect(await check(lines.toSpliced(1, 1))).toEqual([5, "line 2"]);
  expect(await check(lines.slice(0, -1))).toEqual([5, `line ${lines.length - 1}`]);
  expect(await check(first.trim().split("\n"), "--last-hash", whole.last_hash)).toEqual([
    5,
    expect.stringMatching("line"),
  ]);
  expect(await check(lines, "--public-key", "00".repeat(32))).toEqual([5, `line ${lines.length}`]);
  const printed = await verk("export", "--workspace", "default");
  expect(printed.lines().length).toBeGreaterThan(2);
  expect((await verk("export", "--workspace", "none")).code).toBe(2);
  expect(readdirSync(root)).not.toContain("data"); // verify reads the file only
  await server.kill();
}, 120_000);
