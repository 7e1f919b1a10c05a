// tier: all (whole paths on the executable)
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { violations } from "../fault/invariants.ts";
import { tempDir, until } from "../harness.ts";
import { processesWith } from "../sandbox/sessions_kit.ts";
import { sweep } from "../sweep.ts";

const ROUNDS = sweep({ quick: 3, full: 6 });
const MARK = `mark-${crypto.randomUUID()}`;

type Server = Awaited<ReturnType<typeof startBinary>>;
type Acknowledged = { written: Map<string, string>; stopped: string[]; steps: number };

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the server answered
async function call(server: Server, key: string, method: string, path: string, body?: unknown): Promise<any> {
  const json = typeof body === "object";
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, ...(json ? { "content-type": "application/json" } : {}) },
    ...(body === undefined ? {} : { body: json ? JSON.stringify(body) : String(body) }),
  });
  if (!response.ok) throw new Error(`${method} ${path} → ${response.status} ${await response.text()}`);
  return await response.json();
}

/** Creates, uses and stops sessions until the server dies. Only acknowledged work is recorded. */
async function work(server: Server, key: string, acknowledged: Acknowledged, tag: string) {
  for (let i = 0; ; i++) {
    const volumes = [{ name: "shared", mount_path: "/workspace/out", read_only: false }];
    const { id } = await call(server, key, "POST", "/v1/sessions", { volumes });
    await call(server, key, "POST", `/v1/sessions/${id}/exec`, { command: `echo ${tag}${i} > out/${tag}; : ${MARK}` });
    await call(server, key, "PUT", `/v1/sessions/${id}/files/content?path=/workspace/a/b`, `${tag}${i}`);
    acknowledged.written.set(id, `${tag}${i}`);
    acknowledged.steps++;
    if (i % 2 === 1) continue;
    acknowledged.written.delete(id); // from here on it may be stopped or not
    await call(server, key, "POST", `/v1/sessions/${id}/stop`);
    acknowledged.stopped.push(id);
  }
}

test("killed at any moment: acknowledged changes are there, nothing runs, nothing is left over", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const dir = tempDir();
    const { key } = await makeKey(dir);
    const env = { VERK_SESSIONS__MAX_PER_WORKSPACE: "1000" };
    const server = await startBinary({ dir, env });
    await call(server, key, "POST", "/v1/volumes", { name: "shared" });
    const acknowledged: Acknowledged = { written: new Map(), stopped: [], steps: 0 };
    const clients = ["a", "b", "c"].map((tag) => work(server, key, acknowledged, tag).catch(() => {}));
    await until("some work to be done", () => acknowledged.steps >= 3 + round * 2, 30_000);
    await server.kill("SIGKILL");
    await Promise.all(clients);
    await until("no process to be left", async () => (await processesWith(MARK)).length === 0);
    expect(violations(dir)).toEqual([]);

    const again = await startBinary({ dir, env });
    for (const [id, text] of acknowledged.written) {
      const read = await call(again, key, "POST", `/v1/sessions/${id}/exec`, { command: "cat a/b" });
      expect(read.stdout).toBe(text);
    }
    const db = new Database(join(dir, "verk.db"), { readonly: true });
    const count = (where: string) =>
      (db.query(`SELECT count(*) AS n FROM sessions WHERE ${where}`).get() as { n: number }).n;
    await until(
      "all to be in order",
      () => count("status IN ('creating', 'stopping') OR (status <> 'ready' AND removed_at IS NULL)") === 0,
    );
    expect(acknowledged.stopped.filter((id) => existsSync(join(dir, "sessions", id)))).toEqual([]);
    expect(readdirSync(join(dir, "sessions")).length).toBe(count("status = 'ready'"));
    db.close();
    await again.kill("SIGTERM");
    expect(violations(dir)).toEqual([]);
    rmSync(dir, { recursive: true, force: true });
  }
}, 180_000);
