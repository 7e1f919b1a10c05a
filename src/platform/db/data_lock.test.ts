import { afterEach, beforeEach, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { acquireDataLock, isHeld } from "./data_lock.ts";

let dir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "verk-lock-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function refusal(body: () => unknown): UsageError {
  try {
    body();
  } catch (error) {
    if (error instanceof UsageError) return error;
    throw error;
  }
  throw new Error("it was allowed");
}

/** Another process that holds the lock, with a child of its own that outlives it. */
async function holderProcess() {
  const script = `
    const { acquireDataLock } = await import(${JSON.stringify(join(import.meta.dir, "data_lock.ts"))});
    acquireDataLock(${JSON.stringify(dir)}, { version: "9.9.9" }).announce("127.0.0.1:7999");
    const child = Bun.spawn(["sleep", "30"], { stdio: ["ignore", "ignore", "ignore"] });
    Bun.gc(true);
    console.log(child.pid);
    setInterval(() => {}, 1000);`;
  const holder = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
  const reader = holder.stdout.getReader();
  const childPid = Number(new TextDecoder().decode((await reader.read()).value));
  return { holder, childPid };
}

test("a second server is refused with exit code 3, and the error names the process, its address and the fix", async () => {
  const { holder, childPid } = await holderProcess();
  try {
    const error = refusal(() => acquireDataLock(dir, { version: "0.1.0" }));
    expect(error.exitCode).toBe(3);
    for (const part of [dir, `process ${holder.pid}`, "127.0.0.1:7999", "--data"])
      expect(error.message).toContain(part);
    expect(isHeld(dir)).toMatchObject({ held: true, holder: { pid: holder.pid, version: "9.9.9" } });
  } finally {
    holder.kill("SIGKILL");
    process.kill(childPid, "SIGKILL");
  }
});

test("the lock of a killed server is released at once, even while its child lives and server.json remains", async () => {
  const { holder, childPid } = await holderProcess();
  try {
    expect(isHeld(dir).held).toBe(true);
    holder.kill("SIGKILL");
    await holder.exited;
    expect(existsSync(join(dir, "server.json"))).toBe(true);
    expect(isHeld(dir)).toEqual({ held: false });
    const lock = acquireDataLock(dir, { version: "0.1.0" });
    expect(JSON.parse(readFileSync(join(dir, "server.json"), "utf8"))).toMatchObject({
      pid: process.pid,
      listen: null,
    });
    lock.release();
  } finally {
    holder.kill("SIGKILL");
    process.kill(childPid, "SIGKILL");
  }
});

test("a check of the lock does not disturb the holder, in the same process or another", async () => {
  const lock = acquireDataLock(dir, { version: "0.1.0", listen: "127.0.0.1:1" });
  for (let i = 0; i < 3; i++) expect(isHeld(dir).held).toBe(true);
  const script = `
    const { isHeld } = await import(${JSON.stringify(join(import.meta.dir, "data_lock.ts"))});
    console.log(JSON.stringify(isHeld(${JSON.stringify(dir)})));`;
  const outside = Bun.spawnSync([process.execPath, "-e", script]);
  expect(JSON.parse(outside.stdout.toString())).toMatchObject({ held: true, holder: { pid: process.pid } });
  expect(refusal(() => acquireDataLock(dir, { version: "0.1.0" })).exitCode).toBe(3);
  lock.release();
});

test("a released directory is free again and keeps no server.json", () => {
  const lock = acquireDataLock(dir, { version: "0.1.0" });
  lock.release();
  lock.release();
  expect(existsSync(join(dir, "server.json"))).toBe(false);
  expect(isHeld(dir)).toEqual({ held: false });
  acquireDataLock(dir, { version: "0.1.0" }).release();
});

test("a directory that does not exist yet is not locked, and is created private", () => {
  const fresh = join(dir, "a", "b");
  expect(isHeld(fresh)).toEqual({ held: false });
  acquireDataLock(fresh, { version: "0.1.0" }).release();
  expect(existsSync(join(fresh, "lock"))).toBe(true);
});

test("a damaged server.json still gives a refusal", () => {
  const lock = acquireDataLock(dir, { version: "0.1.0" });
  writeFileSync(join(dir, "server.json"), "{ not json");
  expect(refusal(() => acquireDataLock(dir, { version: "0.1.0" })).message).toContain("another process");
  expect(isHeld(dir)).toEqual({ held: true });
  lock.release();
});

test("a path that is a file is refused with a message", () => {
  const file = join(dir, "file");
  writeFileSync(file, "");
  const error = refusal(() => acquireDataLock(file, { version: "0.1.0" }));
  expect(error.message).toContain("not a directory");
});

test.skipIf(process.getuid?.() === 0)("a directory without write permission is refused with a message", () => {
  chmodSync(dir, 0o500);
  expect(refusal(() => acquireDataLock(dir, { version: "0.1.0" })).message).toContain("denied");
  chmodSync(dir, 0o700);
});

test("a path that is too long for SQLite is refused for its length, not for its permissions", () => {
  const deep = join(dir, ...Array(5).fill("x".repeat(100)));
  expect(refusal(() => acquireDataLock(deep, { version: "0.1.0" })).message).toContain("460 bytes");
});
