/**
 * Attacks of a hostile file that has taken over a worker. The program is started instead of the worker, in the sandbox
 * of its kind. It prints one JSON object: attack → "ok" or the error.
 */
import { closeSync, openSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { addressOf, cString, NR, syscall } from "../../src/native/syscalls.ts";

type Target = {
  masterKey: string;
  database: string;
  neighbour: string; // a folder of another worker
  library: string;
  own: string;
  port: number;
  socket: string;
  pid: number; // of another worker
};
const target = JSON.parse(process.argv[2] ?? "{}") as Target;

const AF = { unix: 1, inet: 2, netlink: 16 };
const [SOCK_STREAM, SOCK_DGRAM] = [1, 2];
const PTRACE_TRACEME = 0;
const CLONE_FILES = 0x400; // allowed for a process with threads

const call = (result: number) => {
  if (result < 0) throw Object.assign(new Error(), { code: `error ${-result}` });
  return result;
};
const open = (path: string, flags: string) => closeSync(openSync(path, flags));
const socket = (family: number, type = SOCK_STREAM) => call(syscall(NR.socket, family, type, 0));

function dial() {
  const address = new DataView(new ArrayBuffer(16));
  address.setUint16(0, AF.inet, true);
  address.setUint16(2, target.port);
  address.setUint32(4, 0x7f000001);
  call(syscall(NR.connect, socket(AF.inet), addressOf(new Uint8Array(address.buffer)), 16));
}

function dialNeighbour() {
  const path = Buffer.from(target.socket);
  const address = new Uint8Array(2 + path.length + 1);
  address[0] = AF.unix;
  address.set(path, 2);
  call(syscall(NR.connect, socket(AF.unix), addressOf(address), address.length));
}

const ATTACKS: Record<string, () => unknown> = {
  "read master.key": () => readFileSync(target.masterKey),
  "open verk.db": () => open(target.database, "r"),
  "change verk.db": () => open(target.database, "r+"),
  "read what another worker has": () => readFileSync(`${target.neighbour}/secret`),
  "write outside": () => writeFileSync(`${target.neighbour}/x`, "x"),
  "leave a link for the server": () => symlinkSync(target.masterKey, `${target.own}/link-${process.pid}`),
  "replace a library": () => open(target.library, "r+"),
  "read another worker's environment": () => readFileSync(`/proc/${target.pid}/environ`),
  "start a program": () => {
    if (!Bun.spawnSync(["/bin/true"]).success) throw new Error("no");
  },
  "dial 127.0.0.1": dial,
  "dial another worker": dialNeighbour,
  "send a datagram": () => socket(AF.unix, SOCK_DGRAM),
  "talk to the kernel's network": () => socket(AF.netlink, SOCK_DGRAM),
  ptrace: () => call(syscall(NR.ptrace, PTRACE_TRACEME, 0, 0, 0)),
  "signal another worker": () => process.kill(target.pid, 0),
  unshare: () => call(syscall(NR.unshare, CLONE_FILES)),
  "write in its folder": () => writeFileSync(`${target.own}/x`, "x"),
  "write a file without a name": () => {
    const name = cString("x");
    const fd = call(syscall(NR.memfd_create, addressOf(name), 0));
    writeFileSync(`/proc/self/fd/${fd}`, "x"); // A trainer passes weights to its sampler this way.
  },
};

const seen = Object.entries(ATTACKS).map(([name, attack]) => {
  try {
    attack();
    return [name, "ok"];
  } catch (error) {
    return [name, (error as NodeJS.ErrnoException).code ?? String(error)];
  }
});
process.stdout.write(JSON.stringify(Object.fromEntries(seen)));
