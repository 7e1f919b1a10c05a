// tier: all (whole paths on the executable)
import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { runVerk } from "../cli.ts";
import { tempDir } from "../harness.ts";

const root = tempDir();
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function unpacked(file: string): Promise<Record<string, string>> {
  const child = Bun.spawn(["tar", "-xzf", file, "-C", root], { stderr: "inherit" });
  expect(await child.exited).toBe(0);
  const dir = join(root, "verk-support");
  const parts = Object.fromEntries(readdirSync(dir).map((name) => [name, readFileSync(join(dir, name), "utf8")]));
  rmSync(dir, { recursive: true });
  return parts;
}

test("a support bundle has settings, checks, counts and log, and none of the planted secrets", async () => {
  const planted = ["hub-token-of-the-lab", "otlp-header-value", 'stored s3cret "quoted"', "s3-secret-of-backup"];
  const [hub, otlp, stored, bucket] = planted as [string, string, string, string];
  const env = {
    VERK_HUB__TOKEN: hub,
    VERK_METRICS__OTLP_HEADERS: `authorization=${otlp}`,
    VERK_BACKUP__S3_SECRET_ACCESS_KEY: bucket,
  };
  mkdirSync(join(root, "data"));
  const server = await startBinary({ dir: join(root, "data"), env });
  const key = await server.apiKey();
  await server.call("PUT", "/v1/secrets/TOKEN", { value: stored });
  const hook = await server.call("POST", "/v1/webhooks", { url: "https://example.com/hook", events: ["*"] });
  const signing = hook.body.secret as string;
  const person = await server.verk(["users", "add", "ada@example.com", "--json"]);
  const password = person.json().password as string;
  const master = readFileSync(join(server.dir, "master.key"), "utf8").trim();
  const log = join(root, "server.log");
  const lines = [
    hub,
    stored,
    JSON.stringify({ value: stored }),
    `Bearer ${key}`,
    signing,
    `{"password":"${password}"}`,
  ];
  writeFileSync(log, `${server.stderr()}${lines.join("\n")}\nthe last line\n`);

  const file = join(root, "bundle.tar.gz");
  const made = await server.verk(["support-bundle", "--to", file, "--log", log], { env });
  expect([made.code, made.out]).toEqual([0, `${file}\n`]);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const parts = await unpacked(file);
  expect(Object.keys(parts).sort()).toEqual([
    ...["about.json", "config.json", "database.json", "doctor.json", "files.json", "server.log"],
  ]);
  for (const secret of [...planted, key, signing, password, master])
    for (const [name, text] of Object.entries(parts))
      expect([name, text.includes(secret), text.includes(JSON.stringify(secret).slice(1, -1))]).toEqual([
        name,
        false,
        false,
      ]);
  expect(JSON.parse(parts["about.json"] as string).server.pid).toBe(server.pid);
  expect(JSON.parse(parts["database.json"] as string).rows.webhook_endpoints).toBe(1);
  expect(JSON.parse(parts["doctor.json"] as string).length).toBeGreaterThan(5);
  expect(parts["server.log"]).toEndWith("the last line\n");
  expect((await server.verk(["support-bundle", "--to", file])).code).toBe(2); // never over a file
  await server.kill();

  writeFileSync(join(server.dir, "verk.db"), "damaged ".repeat(1_000));
  const damaged = join(root, "damaged.tar.gz");
  expect(
    (await runVerk(["support-bundle", "--data", server.dir, "--to", damaged, "--log", log], { cwd: root })).code,
  ).toBe(0);
  expect((await unpacked(damaged))["database.json"]).toContain("not a database");
  const none = join(root, "none");
  expect(
    (await runVerk(["support-bundle", "--data", none, "--to", join(root, "x.tgz"), "--log", log], { cwd: root })).code,
  ).toBe(0);
  expect(existsSync(none)).toBe(false);
}, 120_000);
