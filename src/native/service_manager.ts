/** Messages to systemd, over the socket of NOTIFY_SOCKET (sd_notify(3)). The runtime has no unix datagram sockets. */
import { dlopen, ptr } from "bun:ffi";

const AF_UNIX = 1;
const SOCK_DGRAM_CLOEXEC = 0o2000002;
const MSG_NOSIGNAL = 0x4000;
const SUN_PATH_BYTES = 108;

let loaded: ReturnType<typeof open> | undefined;
const open = () =>
  dlopen("libc.so.6", {
    socket: { args: ["i32", "i32", "i32"], returns: "i32" },
    sendto: { args: ["i32", "ptr", "u64", "i32", "ptr", "u32"], returns: "i64" },
    close: { args: ["i32"], returns: "i32" },
  }).symbols;

export type ServiceManager = {
  /** False if the message was not sent. A service works without. */
  send: (state: string) => boolean;
  /** A sign of life is due within this time; undefined without a watchdog. */
  watchdogMs: number | undefined;
};

type Env = Readonly<Record<string, string | undefined>>;

/** Undefined unless systemd waits for messages of this very process. */
export function serviceManager(env: Env, pid = process.pid): ServiceManager | undefined {
  const address = socketAddress(env["NOTIFY_SOCKET"] ?? "");
  if (address === undefined) return undefined;
  const isMine = env["WATCHDOG_PID"] === undefined || Number(env["WATCHDOG_PID"]) === pid;
  const watchdogMs = isMine ? Number(env["WATCHDOG_USEC"] ?? 0) / 1_000 : 0;
  return { send: (state) => send(address, state), watchdogMs: watchdogMs > 0 ? watchdogMs : undefined };
}

/** A sockaddr_un. A name that begins with @ is in the abstract namespace, which has no files. */
export function socketAddress(name: string): Buffer | undefined {
  if (!/^[/@]./.test(name)) return undefined;
  const path = Buffer.from(name.startsWith("@") ? `\0${name.slice(1)}` : `${name}\0`);
  if (path.length > SUN_PATH_BYTES) return undefined;
  const family = Buffer.alloc(2);
  new Uint16Array(family.buffer, family.byteOffset, 1)[0] = AF_UNIX;
  return Buffer.concat([family, path]);
}

function send(address: Buffer, state: string): boolean {
  loaded ??= open();
  const fd = loaded.socket(AF_UNIX, SOCK_DGRAM_CLOEXEC, 0);
  if (fd < 0) return false;
  const bytes = Buffer.from(state);
  const sent = loaded.sendto(fd, ptr(bytes), bytes.length, MSG_NOSIGNAL, ptr(address), address.length);
  loaded.close(fd);
  return Number(sent) === bytes.length;
}
