// tier: all (many jails)
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Layer } from "../../src/lib/rewards/contract.ts";
import { tempDir } from "../harness.ts";
import { asNobody } from "./nobody.ts";

/**
 * The second wall: the attacker is out of the interpreter and holds every right of the runtime. Each attack runs with
 * all layers, and is shown to be one by running without the layer that stops it.
 */
type Ran = { result: unknown; signal: string | null };

const dir = tempDir();
const program = join(dir, "gained");
const open = join(dir, "open"); // anyone may write here
const secret = join(open, "secret.txt");

beforeAll(async () => {
  mkdirSync(open);
  for (const path of [dir, open]) chmodSync(path, 0o777);
  writeFileSync(secret, "the host's");
  chmodSync(secret, 0o644);
  const built = await Bun.build({
    entrypoints: [join(import.meta.dir, "gained.ts")],
    compile: { outfile: program },
    throw: false,
  });
  expect(built.success).toBe(true);
  chmodSync(program, 0o755);
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

async function attack(code: string, without: readonly Layer[] = []): Promise<Ran> {
  const child = Bun.spawn(asNobody([program, ...without, "--", code]), {
    env: {},
    cwd: "/",
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), 60_000);
  const text = await new Response(child.stdout).text();
  await child.exited;
  clearTimeout(timer);
  return {
    result: text === "" ? null : JSON.parse(text).result,
    signal: child.signalCode === null ? null : String(child.signalCode),
  };
}

const EVERY_WALL: readonly Layer[] = ["rlimits", "no_new_privs", "landlock", "seccomp"];
const SIGSYS = { result: null, signal: "SIGSYS" };
const path = (text: string) => `addressOf(cString(${JSON.stringify(text)}))`;
const EPERM = -1;

/** Attack, what it comes to behind all walls, and that it works without them. */
const CALLS: [name: string, code: string, contained: Ran, works: (result: unknown) => boolean][] = [
  [
    "openat",
    `syscall(NR.openat, -100, ${path("/etc/passwd")}, 0, 0)`,
    { result: EPERM, signal: null },
    (fd) => Number(fd) > 2,
  ],
  ["socket", "syscall(NR.socket, 2, 1, 0)", SIGSYS, (fd) => Number(fd) > 2],
  ["socketpair", "syscall(NR.socketpair, 1, 1, 0, addressOf(new Uint8Array(8)))", SIGSYS, (got) => got === 0],
  ["execve", `syscall(NR.execve, ${path("/bin/true")}, 0, 0)`, SIGSYS, (result) => result === null], // it is another program now
  ["ptrace", "syscall(NR.ptrace, 0, 0, 0, 0)", SIGSYS, (got) => got === 0], // to be traced by the parent
  ["fork", "syscall(NR.clone, 17, 0, 0, 0, 0)", { result: EPERM, signal: null }, (pid) => Number(pid) >= 0],
  ["clone3", "syscall(NR.clone3, 0, 0)", { result: -38, signal: null }, (got) => got === -22],
  [
    "process_vm_readv",
    "syscall(NR.process_vm_readv, process.pid, 0, 0, 0, 0, 0)",
    { result: EPERM, signal: null },
    (got) => got === 0,
  ],
  [
    "io_uring_setup",
    "syscall(NR.io_uring_setup, 8, addressOf(new Uint8Array(120)))",
    { result: EPERM, signal: null },
    (fd) => Number(fd) > 2 || fd === -38, // a kernel may be built without it
  ],
  ["bpf", "syscall(NR.bpf, 99, 0, 0)", { result: EPERM, signal: null }, (got) => got !== 0],
  ["mount", "syscall(NR.mount, 0, 0, 0, 0, 0)", { result: EPERM, signal: null }, (got) => got !== 0],
  ["unshare", "syscall(NR.unshare, 0x10000000)", { result: EPERM, signal: null }, (got) => got === -22 || got === 0],
  [
    "memfd_create",
    `syscall(NR.memfd_create, ${path("x")}, 0)`,
    { result: EPERM, signal: null },
    (fd) => Number(fd) > 2,
  ],
  [
    "setrlimit",
    "syscall(NR.setrlimit, 7, addressOf(new BigUint64Array([32n, 32n])))",
    { result: EPERM, signal: null },
    (got) => got === 0,
  ],
  ["keyctl", "syscall(NR.keyctl, 0, -3, 1)", { result: EPERM, signal: null }, (got) => got !== EPERM],
  ["kill", "syscall(NR.kill, process.ppid, 0)", { result: EPERM, signal: null }, () => true],
];

describe("with all of JavaScript in hand", () => {
  test.each(CALLS)("%s is refused, and works without the layers", async (_name, code, contained, works) => {
    expect(await attack(code)).toEqual(contained);
    expect(works((await attack(code, EVERY_WALL)).result)).toBe(true);
  });

  test("a file of the host cannot be read, and can be read without the layers", async () => {
    const read = `process.getBuiltinModule("fs").readFileSync(${JSON.stringify(secret)}, "utf8")`;
    expect((await attack(read)).result).toStartWith("refused");
    expect((await attack(read, ["seccomp"])).result).toStartWith("refused"); // landlock by itself
    expect((await attack(read, ["landlock"])).result).toStartWith("refused"); // the filter by itself
    expect((await attack(read, EVERY_WALL)).result).toBe("the host's");
  });

  test("a file of the host cannot be written, and can be written without the layers", async () => {
    const target = join(open, "written");
    const write = `process.getBuiltinModule("fs").writeFileSync(${JSON.stringify(target)}, "x")`;
    await attack(write);
    await attack(write, ["seccomp"]);
    await attack(write, ["landlock"]);
    expect(existsSync(target)).toBe(false);
    await attack(write, EVERY_WALL);
    expect(existsSync(target)).toBe(true);
  });

  test("no program can be started, and without the layers a program can be started", async () => {
    const target = join(open, "started");
    const start = `Bun.spawnSync(["/usr/bin/touch", ${JSON.stringify(target)}]).exitCode`;
    await attack(start);
    expect(existsSync(target)).toBe(false);
    expect((await attack(start, EVERY_WALL)).result).toBe(0);
    expect(existsSync(target)).toBe(true);
  });

  test("no connection can be made, and without the layers a connection can be made", async () => {
    let connections = 0;
    const server = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: { open: () => void connections++, data: () => {} },
    });
    const address = `new Uint8Array([2, 0, ${server.port >> 8}, ${server.port & 255}, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0])`;
    const connect = `syscall(NR.connect, syscall(NR.socket, 2, 1, 0), addressOf(${address}), 16)`;
    expect(await attack(connect)).toEqual(SIGSYS);
    expect(connections).toBe(0);
    expect((await attack(connect, EVERY_WALL)).result).toBe(0);
    expect(connections).toBe(1);
    server.stop(true);
  });

  test("memory ends at the limit, and grows beyond it without the limit", async () => {
    const fill =
      "(() => { const held = []; for (let i = 0; i < 40; i++) held.push(new Uint8Array(64 << 20).fill(1)); return held.length })()";
    const { result } = await attack(fill); // 2.5 GiB: an exception, or the end of the process
    expect(result === null || String(result).startsWith("refused")).toBe(true);
    expect((await attack(fill, EVERY_WALL)).result).toBe(40);
  });

  test("its environment holds nothing of the host", async () => {
    expect((await attack("Object.keys(process.env)")).result).toEqual([]);
  });
});
