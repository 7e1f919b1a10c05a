// tier: all (serves models with the executable)

import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeKey, program, runVerk } from "../cli.ts";
import { until } from "../harness.ts";
import { startServing } from "./served.ts";

let server: Awaited<ReturnType<typeof startServing>>;
const MODEL = { arch: "qwen3", type: "F32", context: 1024 } as const;
beforeAll(async () => {
  server = await startServing({ models: { tiny: MODEL } });
}, 120_000);
afterAll(() => server.stop());

/** The first bytes of a block name its format. */
const FORMAT = "VKP2";
const LONG = "A long beginning that every turn of the talk has, word for word, from the first to the last. ".repeat(4);

const chat = async (id: string, text: string, key = server.key) => {
  const answer = await fetch(`${server.url}/v1/deployments/${id}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ messages: [{ role: "user", content: text }], temperature: 0, max_tokens: 8 }),
  });
  const body = await answer.json();
  if (!answer.ok) throw new Error(JSON.stringify(body));
  return {
    text: body.choices[0].message.content as string,
    cached: body.usage.prompt_tokens_details.cached_tokens as number,
    prompt: body.usage.prompt_tokens as number,
  };
};

const blocksIn = (workspace: string) => {
  const dir = join(server.dir, "prefixes", workspace);
  return existsSync(dir) ? readdirSync(dir).filter((name) => name.length === 64) : [];
};
const workspaces = () => readdirSync(join(server.dir, "prefixes")).filter((name) => name !== "format");
const verk = async (...args: string[]) => {
  const run = await runVerk([...args, "--data", server.dir, "--json"], { cwd: server.dir });
  if (run.code !== 0) throw new Error(run.err);
  return run.json();
};

test("a talk goes on after a park, after kill -9 of its replica and after kill -9 of the server", async () => {
  const id = await server.deploy({
    model: "tiny",
    name: "talk",
    min_replicas: 0,
    idle_timeout_seconds: 3600,
    parallel: 2,
  });
  const first = await chat(id, LONG);
  expect(first.cached).toBe(0);
  const blocks = Math.floor((first.prompt - 1) / 64) * 64;
  const [workspace = ""] = workspaces();

  expect((await server.call("POST", `/v1/deployments/${id}/park`)).status).toBe(200);
  await until("its blocks are on the disk", () => blocksIn(workspace).length > 2);
  expect(await chat(id, LONG)).toEqual({ ...first, cached: blocks });

  const other = await chat(id, `Another talk. ${LONG}`);
  await until("its blocks are on the disk", () => blocksIn(workspace).length >= 2 * Math.floor(other.prompt / 64));
  for (const pid of server.workers()) process.kill(pid, "SIGKILL");
  await until(
    "the lost replica is noticed",
    async () => (await server.get(`/v1/deployments/${id}`)).status !== "serving",
  );
  await server.reaches(id, "serving");
  const again = await chat(id, `Another talk. ${LONG}`);
  expect([again.text, again.cached > 64]).toEqual([other.text, true]);

  await server.kill();
  await server.restart();
  await server.reaches(id, "serving");
  expect(await chat(id, LONG)).toEqual({ ...first, cached: blocks });

  const kept = await until("what was read is reported", async () => {
    const { prefix_cache: now } = await server.get(`/v1/deployments/${id}/live`);
    return now.read_tokens === blocks ? now : undefined;
  });
  expect(kept.limit_bytes).toBe(10_737_418_240);
  expect(kept.bytes).toBeGreaterThan(1_000);
  const metrics = await (
    await fetch(`${server.url}/v1/metrics`, { headers: { authorization: `Bearer ${server.key}` } })
  ).text();
  expect(metrics).toMatch(/verk_storage_bytes\{[^}]*kind="prefixes"[^}]*\} [1-9]/);
}, 300_000);

test("an upgrade keeps the blocks of an equal format, and drops those of another one", async () => {
  const id = await server.deploy({ model: "tiny", name: "upgraded", min_replicas: 0, parallel: 2 });
  const talk = `Before an upgrade. ${LONG}`;
  const [workspace = ""] = workspaces();
  const before = new Set(blocksIn(workspace));
  const first = await chat(id, talk);
  const newOnes = (old: ReadonlySet<string>) => blocksIn(workspace).filter((name) => !old.has(name));
  const areKept = (old: ReadonlySet<string>) => newOnes(old).length >= Math.floor((first.prompt - 1) / 64);
  await until("its blocks are on the disk", () => areKept(before));
  const upgrade = async (binary?: string) => {
    await server.kill();
    await server.restart(binary);
    await server.reaches(id, "serving");
    const { text, cached } = await chat(id, talk);
    return { text, isCached: cached > 0 };
  };
  expect(await upgrade()).toEqual({ text: first.text, isCached: true });

  const other = join(server.dir, "verk-other");
  const bytes = readFileSync(program()[0]!);
  for (let at = bytes.indexOf(FORMAT); at >= 0; at = bytes.indexOf(FORMAT, at)) bytes.write("VKP0", at, "latin1");
  writeFileSync(other, bytes, { mode: 0o700 });
  const old = new Set(blocksIn(workspace));
  expect(await upgrade(other)).toEqual({ text: first.text, isCached: false });
  await until("its blocks are written anew", () => areKept(old));
  await until("the old blocks are dropped", () => blocksIn(workspace).every((name) => !old.has(name)));
  expect(await upgrade(other)).toEqual({ text: first.text, isCached: true });
  expect(await upgrade()).toEqual({ text: first.text, isCached: false });
  await server.call("POST", `/v1/deployments/${id}/park`);
}, 300_000);

test("no block of one workspace serves another, and those of a deleted workspace cannot be read", async () => {
  const [first = ""] = workspaces();
  const { id: rival } = await verk("workspaces", "create", "rival");
  const { key } = await makeKey(server.dir, "--workspace", "rival");
  const call = async (method: string, path: string, json?: unknown) =>
    await (
      await fetch(`${server.url}${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        ...(json === undefined ? {} : { body: JSON.stringify(json) }),
      })
    ).json();
  const { id } = await call("POST", "/v1/deployments", { model: "tiny", name: "theirs", min_replicas: 0, parallel: 2 });
  const seen = await chat(id, LONG, key); // the first workspace has asked this already
  expect(seen.cached).toBe(0);
  await call("POST", `/v1/deployments/${id}/park`);
  await until("their blocks are on the disk", () => blocksIn(rival).length > 2);
  const own = new Set(blocksIn(first));
  expect(blocksIn(rival).filter((name) => own.has(name))).toEqual([]);

  await verk("workspaces", "delete", "rival");
  const db = new Database(join(server.dir, "verk.db"), { readonly: true });
  expect(db.query("SELECT count(*) AS n FROM prefix_stores WHERE workspace_id = ?").get(rival)).toEqual({ n: 0 });
  db.close(); // from here on the blocks are noise
  await until("the folder is gone", () => !existsSync(join(server.dir, "prefixes", rival)));
}, 300_000);
