// tier: all (whole paths on the executable)
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { runVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { sampleOf } from "../sweep.ts";

const root = tempDir();
afterAll(() => rmSync(root, { recursive: true, force: true }));

let count = 0;
const freshDir = () => join(root, String(count++));

const verk = (args: string[], env: Record<string, string> = {}) => runVerk(args, { cwd: root, env });

describe("help", () => {
  test("verk alone lists the commands and the exit codes, and never the hidden one", async () => {
    const { code, out } = await verk([]);
    expect(code).toBe(0);
    for (const word of ["serve", "keys", "workspaces", "config", "doctor", "demo", "version", "Exit codes"])
      expect(out).toContain(word);
    expect(out).not.toContain("worker");
    expect((await verk(["help"])).out).toBe(out);
    expect((await verk(["--help"])).out).toBe(out);
  });

  const commands = ["serve", "keys", "keys create", "keys list", "keys revoke", "workspaces", "workspaces delete"];
  commands.push("deploy", "deployments", "deployments list", "deployments show", "deployments stop", "chat");
  const ofDatasets = ["push", "pull", "list", "show", "create", "append", "snapshot", "delete"];
  commands.push("datasets", ...ofDatasets.map((name) => `datasets ${name}`));
  commands.push("volumes", ...["list", "create", "ls", "cp", "rm", "delete"].map((name) => `volumes ${name}`));
  commands.push("rewards", ...["test", "push", "list", "library"].map((name) => `rewards ${name}`));
  commands.push("sessions", ...["create", "list", "exec", "cp", "stop"].map((name) => `sessions ${name}`));
  commands.push("webhooks", ...["create", "list", "listen", "verify"].map((name) => `webhooks ${name}`));
  const ofJobs = ["create", "list", "get", "watch", "logs", "cancel", "pause", "resume", "delete", "model"];
  commands.push("jobs", ...ofJobs.map((name) => `jobs ${name}`));
  commands.push("credits", "credits show", "credits grant");
  commands.push("config", ...["print", "check", "default", "pricing"].map((name) => `config ${name}`));
  commands.push("doctor", "demo", "version", "completion", "jobs checkpoints");
  // In a quick run the pages of the others are checked without a process, by src/cli/text/help.test.ts.
  test.each(sampleOf("help of commands", commands, 0.15))(
    "verk help %s shows usage, flags, an example and exit codes",
    async (name) => {
      const { code, out } = await verk(["help", ...name.split(" ")]);
      expect(code).toBe(0);
      const isGroup = out.includes("<command>");
      for (const word of [`verk ${name}`, "Examples:"]) expect(out).toContain(word);
      for (const word of isGroup ? ["Commands:"] : ["Flags:", "Exit codes:"]) expect(out).toContain(word);
    },
  );

  test("--help behind a command is the same as help before it, and runs nothing", async () => {
    const dir = freshDir();
    const help = await verk(["keys", "create", "--data", dir, "--help"]);
    expect([help.code, help.out]).toEqual([0, (await verk(["help", "keys", "create"])).out]);
    expect(existsSync(dir)).toBe(false);
  });
});

describe("wrong arguments exit 2 and name the fix", () => {
  test.each([
    [["kyes"], "Did you mean keys?"],
    [["keys", "creat"], "Did you mean keys create?"],
    [["keys"], "create, list, rotate, revoke"],
    [["help", "srve"], "Did you mean serve?"],
    [["serve", "--lisen", "x"], "Did you mean --listen?"],
    [["serve", "extra"], 'unexpected argument "extra"'],
    [["keys", "revoke"], "id is missing"],
    [["keys", "create", "--scope", "raed"], "Did you mean read?"],
    [["keys", "create", "--expires", "soon"], "--expires"],
    [["serve", "--listen", "nonsense"], "http.listen"],
    [["serve", "--config", "/nowhere.toml"], "/nowhere.toml"],
  ])("verk %p", async (args, message) => {
    const { code, out, err } = await verk(args);
    expect(err).toContain(message);
    expect(err).not.toMatch(/^ +at /m); // no stack
    expect([code, out]).toEqual([2, ""]);
  });
});

describe("keys and workspaces without a server", () => {
  test("a default workspace that was deleted does not come back by itself", async () => {
    const on = ["--data", freshDir()];
    expect((await verk(["keys", "create", ...on])).code).toBe(0);
    expect((await verk(["workspaces", "delete", "default", ...on])).code).toBe(0);
    const { code, err } = await verk(["keys", "list", ...on]);
    expect([code, err]).toEqual([2, expect.stringContaining("verk workspaces create default")]);
  });

  test("credit is granted, taken back and shown, and an invalid amount is refused", async () => {
    const on = ["--data", freshDir()];
    expect((await verk(["keys", "create", ...on])).code).toBe(0); // begins the data directory
    expect((await verk(["credits", "grant", "250", ...on, "--note", "May"])).code).toBe(0);
    const back = (await verk(["credits", "grant", "50", "--take-back", ...on, "--json"])).json();
    expect(back).toEqual({ id: expect.stringMatching(/^txn_/), amount_usd: -50, balance_usd: 300 });
    const seen = (await verk(["credits", "show", ...on, "--json"])).json();
    expect(seen).toMatchObject({ payment_customer_id: expect.stringMatching(/^cus_/), balance_usd: 300 });
    const told = seen.items.map((each: { description: string }) => each.description);
    expect(told).toEqual(["Credit taken back", "May", "Initial credit"]);
    for (const amount of ["0", "abc", "1e3", "0.0000001"]) {
      const { code, err } = await verk(["credits", "grant", amount, ...on]);
      expect([code, err]).toEqual([2, expect.stringContaining("expected an amount in dollars")]);
    }
  });

  const dir = freshDir();
  const on = ["--data", dir];

  test("create prints exactly id and key, list hides the key, and revoke removes the key", async () => {
    const made = (
      await verk(["keys", "create", ...on, "--name", "laptop", "--scope", "read", "--expires", "30d", "--json"])
    ).json();
    expect(Object.keys(made)).toEqual(["id", "key"]);
    const listed = await verk(["keys", "list", ...on, "--json"]);
    expect(listed.out).not.toContain(made.key);
    expect(listed.json().data).toEqual([expect.objectContaining({ id: made.id, name: "laptop", scopes: ["read"] })]);
    expect((await verk(["keys", "revoke", made.id, ...on])).code).toBe(0);
    expect((await verk(["keys", "list", ...on, "--json"])).json().data).toEqual([]);
    expect(await verk(["keys", "revoke", "key_none", ...on])).toMatchObject({
      code: 1,
      err: expect.stringContaining("key_none"),
    });
  });

  test("the change of a command is in the audit log of its workspace, with the account of the user", async () => {
    const dir = freshDir();
    const on = ["--data", dir];
    const { id, key } = (await verk(["keys", "create", ...on, "--json"])).json();
    const { id: grant } = (await verk(["credits", "grant", "5", ...on, "--json"])).json();
    const other = (await verk(["keys", "create", ...on, "--json"])).json().id;
    expect((await verk(["keys", "revoke", other, ...on])).code).toBe(0);
    expect((await verk(["keys", "revoke", "key_none", ...on])).code).toBe(1);
    const server = await startBinary({ dir });
    const headers = { authorization: `Bearer ${key}` };
    const answer = await fetch(`${server.url}/v1/account/audit_log`, { headers });
    const { data } = (await answer.json()) as { data: Record<string, unknown>[] };
    await server.kill("SIGTERM");
    const who = { id: `cli:${userInfo().username}`, name: null };
    expect(data.map((entry) => [entry["method"], entry["route"], entry["resource_ids"], entry["key"]])).toEqual([
      ["CLI", `verk keys revoke ${other}`, {}, who],
      ["CLI", "verk keys create", { created: other }, who],
      ["CLI", "verk credits grant", { created: grant }, who],
      ["CLI", "verk keys create", { created: id }, who],
    ]);
  }, 60_000);

  test("commands and a server that start on a new data directory at the same moment all succeed", async () => {
    const crowded = freshDir();
    mkdirSync(crowded);
    const commands = Array.from({ length: 4 }, () => verk(["keys", "create", "--data", crowded, "--json"]));
    const server = await startBinary({ dir: crowded });
    const made = await Promise.all(commands);
    await server.kill("SIGTERM");
    expect(made.map(({ code, err }) => [code, err])).toEqual(made.map(() => [0, ""]));
    expect((await verk(["keys", "list", "--data", crowded, "--json"])).json().data).toHaveLength(made.length);
  });

  test("without --json only the key is on standard output", async () => {
    expect((await verk(["keys", "create", ...on])).out).toMatch(/^vk_[0-9A-Za-z]{43}\n$/);
  });

  test("an unknown workspace is refused with the command that makes it", async () => {
    const { code, err } = await verk(["keys", "create", ...on, "--workspace", "research"]);
    expect([code, err]).toEqual([2, expect.stringContaining("verk workspaces create research")]);
    const made = (await verk(["workspaces", "create", "research", ...on, "--json"])).json();
    expect(made).toMatchObject({ object: "workspace", name: "research", status: "active" });
    expect((await verk(["keys", "create", ...on, "--workspace", "research"])).code).toBe(0);
  });

  test("a workspace can be suspended, resumed and deleted; its name is then free", async () => {
    expect((await verk(["workspaces", "create", "lab", ...on])).code).toBe(0);
    expect((await verk(["workspaces", "create", "lab", ...on])).code).toBe(1);
    expect((await verk(["workspaces", "suspend", "lab", ...on, "--json"])).json()).toMatchObject({
      status: "suspended",
    });
    expect((await verk(["workspaces", "suspend", "lab", ...on])).code).toBe(1);
    expect((await verk(["workspaces", "resume", "lab", ...on, "--json"])).json()).toMatchObject({ status: "active" });
    expect((await verk(["workspaces", "delete", "lab", ...on, "--json"])).json()).toMatchObject({ deleted: true });
    const names = (await verk(["workspaces", "list", ...on, "--json"]))
      .json()
      .data.map((each: { name: string }) => each.name);
    expect(names).not.toContain("lab");
    expect((await verk(["workspaces", "create", "lab", ...on])).code).toBe(0);
  });
});

describe("beside a running server", () => {
  let server: Awaited<ReturnType<typeof startBinary>>;
  beforeAll(async () => {
    server = await startBinary();
  });
  afterAll(async () => {
    await server.kill();
    rmSync(server.dir, { recursive: true, force: true });
  });
  const account = (key: string) => fetch(`${server.url}/v1/account`, { headers: { authorization: `Bearer ${key}` } });

  test("a new key works at once, and a revoked one stops soon", async () => {
    const { id, key } = (await verk(["keys", "create", "--data", server.dir, "--json"])).json();
    expect((await account(key)).status).toBe(200);
    expect((await verk(["keys", "revoke", id, "--data", server.dir])).code).toBe(0);
    await until("the revoked key to be refused", async () => (await account(key)).status === 401);
  });

  test("a second server on the same data directory exits 3 and names the first", async () => {
    const { code, err } = await verk(["serve", "--data", server.dir, "--listen", "127.0.0.1:0"]);
    expect([code, err]).toEqual([3, expect.stringContaining(`process ${server.pid}`)]);
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
  });

  test("a taken port exits 2 and names the flag", async () => {
    const { code, err } = await verk(["serve", "--data", freshDir(), "--listen", new URL(server.url).host]);
    expect([code, err]).toEqual([2, expect.stringContaining("--listen")]);
  });
});

test("a database of a newer version exits 4 and says what to do, for the server and for a command", async () => {
  const dir = freshDir();
  expect((await verk(["keys", "create", "--data", dir])).code).toBe(0);
  const db = new Database(join(dir, "verk.db"));
  db.run("PRAGMA user_version = 999");
  db.close();
  for (const args of [
    ["serve", "--listen", "127.0.0.1:0"],
    ["keys", "list"],
  ]) {
    const { code, err } = await verk([...args, "--data", dir]);
    expect([code, err]).toEqual([4, expect.stringContaining("newer version")]);
  }
});

test("a first start shows the address and a setup link that works, and no key without a terminal", async () => {
  const server = await startBinary();
  const link = await until("the setup link", () => /http\S+\/setup\?token=\S+/.exec(server.stderr())?.[0]);
  expect(server.stderr()).toContain(`listening on ${server.url}`);
  const token = new URL(link).searchParams.get("token");
  const redeem = () =>
    fetch(`${server.url}/setup`, {
      method: "POST",
      body: JSON.stringify({ token }),
      headers: { "content-type": "application/json" },
    });
  expect((await redeem()).status).toBe(201);
  expect((await redeem()).status).toBe(401);
  const { code, stderr } = await server.kill("SIGTERM");
  expect(code).toBe(0);
  expect(stderr).not.toContain("vk_");
  expect(existsSync(join(server.dir, "server.json"))).toBe(false);
  rmSync(server.dir, { recursive: true, force: true });
});

describe("config", () => {
  const file = join(root, "verk.toml");

  test("a wrong file is named with the setting; check exits 5, serve exits 2", async () => {
    writeFileSync(file, '[http]\nlisten = "nonsense"\n');
    const check = await verk(["config", "check", "--config", file]);
    expect([check.code, check.err]).toEqual([5, expect.stringContaining(`${file}:2: http.listen`)]);
    expect((await verk(["config", "check", "--config", file, "--json"])).json()).toMatchObject({ ok: false, file });
    expect((await verk(["serve", "--config", file])).code).toBe(2);
    writeFileSync(file, '[http]\nlissten = "127.0.0.1:1"\n');
    expect((await verk(["config", "check", "--config", file])).err).toContain("Did you mean http.listen?");
  });

  test("print shows the settings in effect, from file, environment and flags", async () => {
    writeFileSync(file, '[http]\nlisten = "127.0.0.1:1234"\n[log]\nlevel = "warn"\n');
    const { json } = await verk(["config", "print", "--config", file, "--data", "/d", "--json"], {
      VERK_LOG__LEVEL: "error",
    });
    expect(json()).toMatchObject({ data_dir: "/d", http: { listen: "127.0.0.1:1234" }, log: { level: "error" } });
    expect((await verk(["config", "print", "--config", file])).out).toContain('http.listen = "127.0.0.1:1234"\n');
  });

  test("the default file is the one in the repository, and it checks", async () => {
    const { out } = await verk(["config", "default"]);
    expect(out).toBe(await Bun.file(join(import.meta.dir, "../../config/default.toml")).text());
    writeFileSync(file, out);
    expect((await verk(["config", "check", "--config", file])).code).toBe(0);
  });
});

test("version prints the same in text and in JSON", async () => {
  const { version, commit } = (await verk(["version", "--json"])).json();
  expect((await verk(["version"])).out).toBe(`verk ${version} (${commit})\n`);
});

test("doctor --speed measures what decodes here, and keeps nothing where there is nothing to choose", async () => {
  const data = freshDir();
  const { code, json } = await verk(["doctor", "--speed", "--data", data, "--json"]);
  expect(code).toBe(0);
  const result = json();
  expect(result).toMatchObject({ model: "verk-tiny", own: null, ratio: null, errors: [] });
  expect(result.library.answers.map(({ streams }: { streams: number }) => streams)).toEqual([1, 8, 32]);
  for (const rate of [result.library.prompt, result.library.answers[0].rate]) expect(rate).toBeGreaterThan(0);
  expect(existsSync(data) ? readdirSync(data) : []).not.toContain("speeds.json");
  expect(await verk(["doctor", "other", "--data", data])).toMatchObject({ code: 2 });
  const unknown = await verk(["doctor", "--speed", "other", "--data", data]);
  expect(unknown).toMatchObject({ code: 2 });
  expect(unknown.err).toContain("There is no model other with a file here");
}, 300_000);

test("doctor --json has one finding per check, and its exit code agrees with them", async () => {
  const { code, json } = await verk(["doctor", "--data", freshDir(), "--json"]);
  const report = json() as { ok: boolean; checks: { check: string; status: string; fix?: string }[] };
  expect(new Set(report.checks.map(({ check }) => check)).size).toBe(report.checks.length);
  expect(report.checks.length).toBeGreaterThan(10);
  expect(report.ok).toBe(!report.checks.some(({ status }) => status === "fail"));
  expect(code).toBe(report.ok ? 0 : 5);
  for (const { status, fix } of report.checks) if (status !== "ok") expect(fix).toBeTruthy();
}, 120_000);
