import { dlopen, ptr } from "bun:ffi";
import { afterEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serviceManager, socketAddress } from "./service_manager.ts";

const libc = dlopen("libc.so.6", {
  socket: { args: ["i32", "i32", "i32"], returns: "i32" },
  bind: { args: ["i32", "ptr", "u32"], returns: "i32" },
  recv: { args: ["i32", "ptr", "u64", "i32"], returns: "i64" },
  close: { args: ["i32"], returns: "i32" },
}).symbols;
const DO_NOT_WAIT = 0x40;
const UNIX_DATAGRAM = [1, 2, 0] as const;

const undo: (() => void)[] = [];
afterEach(() => {
  for (const step of undo.splice(0)) step();
});

/** A socket as systemd has one. */
function listenAt(name: string) {
  const fd = libc.socket(...UNIX_DATAGRAM);
  const address = socketAddress(name) as Buffer;
  expect(libc.bind(fd, ptr(address), address.length)).toBe(0);
  undo.push(() => libc.close(fd));
  return () => {
    const bytes = Buffer.alloc(256);
    const length = Number(libc.recv(fd, ptr(bytes), bytes.length, DO_NOT_WAIT));
    return length < 0 ? undefined : bytes.toString("utf8", 0, length);
  };
}

function temporaryPath() {
  const dir = mkdtempSync(join(tmpdir(), "verk-notify-"));
  undo.push(() => rmSync(dir, { recursive: true, force: true }));
  return join(dir, "notify");
}

test("a message arrives whole at a path and at an abstract name", () => {
  for (const name of [temporaryPath(), `@verk-notify-${process.pid}`]) {
    const receive = listenAt(name);
    expect(serviceManager({ NOTIFY_SOCKET: name })?.send("READY=1")).toBe(true);
    expect(receive()).toBe("READY=1");
    expect(receive()).toBeUndefined();
  }
});

test("a socket that is gone is no error", () => {
  expect(serviceManager({ NOTIFY_SOCKET: temporaryPath() })?.send("READY=1")).toBe(false);
});

test("without a usable address there is no service manager", () => {
  for (const NOTIFY_SOCKET of [undefined, "", "relative", "/", "vsock:2:1", `/${"x".repeat(200)}`])
    expect(serviceManager({ NOTIFY_SOCKET }), String(NOTIFY_SOCKET)).toBeUndefined();
});

test("the watchdog is that of this process alone", () => {
  const env = { NOTIFY_SOCKET: "@x", WATCHDOG_USEC: "120000000" };
  expect(serviceManager(env)?.watchdogMs).toBe(120_000);
  expect(serviceManager({ ...env, WATCHDOG_PID: "7" }, 7)?.watchdogMs).toBe(120_000);
  expect(serviceManager({ ...env, WATCHDOG_PID: "7" }, 8)?.watchdogMs).toBeUndefined();
  expect(serviceManager({ NOTIFY_SOCKET: "@x" })?.watchdogMs).toBeUndefined();
});
