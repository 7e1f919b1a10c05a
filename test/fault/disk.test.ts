// tier: all (sweeps of faults)
import { afterEach, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Stopped, startBinary } from "../binary.ts";
import { makeKey, runVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { violations } from "./invariants.ts";
import { CAN_MOUNT, fill, sh, smallDisk, unmountAll } from "./small_disk.ts";

afterEach(unmountAll);

async function create(url: string, key: string, name: string) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const body = JSON.stringify({ name, metadata: { filler: "x".repeat(500) } });
  const response = await fetch(`${url}/v1/workspaces`, { method: "POST", headers, body });
  return {
    status: response.status,
    body: (await response.json()) as { id: string; error?: { code: string; message: string } },
  };
}

describe.skipIf(!CAN_MOUNT)("the data directory's disk", () => {
  test("D12 full while serving: writes are a 503 that says so, reads continue, and free space ends it without loss", async () => {
    const dir = smallDisk();
    const { key } = await makeKey(dir, "--scope", "admin");
    const env = { VERK_HTTP__RATE_LIMIT_PER_SECOND: "0" }; // how many fit into what is left is not ours to say
    const server = await startBinary({ dir, env });
    const kept: string[] = [(await create(server.url, key, "before")).body.id];
    fill(dir);
    let refused: Awaited<ReturnType<typeof create>> | undefined;
    for (let i = 0; i < 5000 && !refused; i++) {
      const answer = await create(server.url, key, `w${i}`);
      if (answer.status === 201) kept.push(answer.body.id);
      else refused = answer;
    }
    expect(refused).toMatchObject({ status: 503, body: { error: { code: "storage_unavailable" } } });
    expect(refused?.body.error?.message).toContain("full");
    const headers = { authorization: `Bearer ${key}` };
    expect((await fetch(`${server.url}/v1/workspaces/${kept[0]}`, { headers })).status).toBe(200);
    const ready = async () => await fetch(`${server.url}/readyz`);
    // a small write of a loop may still have found room, so a write is refused right before each look
    const notReady = await until("/readyz to be 503", async () => {
      const { status } = await create(server.url, key, "full");
      const answer = await ready();
      return status === 503 && answer.status === 503 ? await answer.text() : undefined;
    });
    expect(notReady).toContain("full");
    rmSync(join(dir, "filler"));
    await until("/readyz to be 200 without a request that writes", async () => (await ready()).ok);
    const healed = await until("a write to succeed again", async () => {
      const answer = await create(server.url, key, "after");
      return answer.status === 201 ? answer : undefined;
    });
    kept.push(healed.body.id);
    await server.kill("SIGKILL");
    expect(violations(dir)).toEqual([]);
    const again = await startBinary({ dir, env });
    for (const id of kept) expect((await fetch(`${again.url}/v1/workspaces/${id}`, { headers })).status).toBe(200);
    await again.kill("SIGTERM");
  }, 60_000);

  test("D12 F10 full at the start: the program says so and ends with 1, so that systemd tries again", async () => {
    const dir = smallDisk();
    const home = tempDir();
    await makeKey(dir);
    for (const isNew of [false, true]) {
      if (isNew) for (const name of readdirSync(dir)) rmSync(join(dir, name), { recursive: true });
      fill(dir);
      const failed = await runVerk(["serve", "--data", dir, "--listen", "127.0.0.1:0"], { cwd: home });
      expect(failed.err).toMatch(/full/);
      expect(failed.err).not.toContain("    at "); // one line for the operator, no stack
      expect(failed.code).toBe(1);
      const unit = readFileSync("config/verk.service", "utf8");
      expect(/^RestartPreventExitStatus=(.*)$/m.exec(unit)?.[1]?.split(" ")).not.toContain("1");
      expect(unit).toContain("StartLimitIntervalSec=0");
    }
    rmSync(home, { recursive: true });
    rmSync(join(dir, "filler"));
    await (await startBinary({ dir })).kill("SIGTERM");
    expect(violations(dir)).toEqual([]);
  }, 120_000);

  test("read-only: the program says so and stops; once writable it starts with everything there", async () => {
    const dir = smallDisk();
    const { key } = await makeKey(dir, "--scope", "admin");
    const server = await startBinary({ dir });
    const { id } = (await create(server.url, key, "before")).body;
    await server.kill("SIGTERM");
    expect(sh("mount", "-o", "remount,ro", dir).exitCode).toBe(0);
    const failed = await startBinary({ dir }).then(
      () => undefined,
      (error: Stopped) => error,
    );
    expect(failed).toBeInstanceOf(Stopped);
    expect(failed?.stderr).toMatch(/read-only/);
    expect(failed?.stderr).not.toContain("    at ");
    sh("mount", "-o", "remount,rw", dir);
    const again = await startBinary({ dir });
    const headers = { authorization: `Bearer ${key}` };
    expect((await fetch(`${again.url}/v1/workspaces/${id}`, { headers })).status).toBe(200);
    await again.kill("SIGTERM");
  }, 120_000);
});
