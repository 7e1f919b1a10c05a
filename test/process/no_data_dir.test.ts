// tier: all (whole paths on the executable)
import { afterEach, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { runVerk } from "../cli.ts";
import { tempDir } from "../harness.ts";

let home = "";
afterEach(() => rmSync(home, { recursive: true, force: true }));

test("F5 commands that create nothing refuse a data directory that does not exist, and make none", async () => {
  home = tempDir();
  const dir = join(home, "typo");
  const commands = [
    ["keys", "list"],
    ["keys", "revoke", "key_x"],
    ["keys", "rotate-master"],
    ["audit", "export"],
    ["users", "list"],
    ["credits", "show"],
    ["credits", "grant", "5"],
    ["models", "list"],
    ["workspaces", "list"],
    ["workspaces", "suspend", "x"],
  ];
  const run = async (words: string[]) => {
    const { code, err } = await runVerk([...words, "--data", dir], { cwd: home });
    expect([words.join(" "), code, err]).toEqual([
      words.join(" "),
      2,
      `verk: There is no data directory at ${dir}. Name the directory of your server with --data or VERK_DATA.\n`,
    ]);
  };
  for (const words of commands) await run(words);
  expect(existsSync(dir)).toBe(false);
  mkdirSync(dir); // an empty one is none either
  await run(["keys", "list"]);
  expect(readdirSync(dir)).toEqual([]);
});

test("commands that only read leave no data directory behind, whatever they answer", async () => {
  home = tempDir();
  const dir = join(home, "typo");
  const file = join(home, "audit.jsonl");
  await Bun.write(file, "");
  const scheduled = { VERK_BACKUP__TARGET: join(home, "none"), VERK_BACKUP__SCHEDULE: "30 2 * * *" };
  for (const words of [
    ["doctor", "--data", dir],
    ["config", "print", "--data", dir],
    ["config", "check", "--data", dir],
    ["status", "--data", dir],
    ["jobs", "list", "--data", dir],
    ["deployments", "list", "--data", dir],
    ["backup", "create", "--data", dir, "--to", join(home, "backups"), "--without-keys"],
    ["backup", "list", "--from", join(home, "none")],
    ["backup", "verify", "--from", join(home, "none")],
    ["backup", "schedule"],
    ["audit", "verify", file],
    ["support-bundle", "--data", dir, "--to", join(home, "bundle.tar.gz"), "--log", file],
    ["tls", "acme", "--data", dir, "--name", "a.test", "--directory", "https://127.0.0.1:1/dir"],
  ]) {
    await runVerk(words, { cwd: home, env: scheduled });
    const made = [dir, join(home, "none"), join(home, "backups")].filter((path) => existsSync(path));
    expect([words.join(" "), made]).toEqual([words.join(" "), []]);
  }
}, 120_000);

test("F5 keys create and workspaces create still begin a data directory", async () => {
  home = tempDir();
  for (const words of [
    ["keys", "create"],
    ["workspaces", "create", "research"],
  ]) {
    const dir = join(home, words[0] as string);
    expect((await runVerk([...words, "--data", dir], { cwd: home })).code).toBe(0);
    expect(existsSync(join(dir, "verk.db"))).toBe(true);
  }
});
