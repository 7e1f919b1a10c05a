import { afterAll, describe, expect, test } from "bun:test";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { aside } from "../aside/aside.ts";
import { until } from "../harness.ts";
import { openYard, type Ran } from "./jail_kit.ts";

const yard = openYard();
afterAll(() => rmSync(yard.dir, { recursive: true, force: true }));
const MIB = 1 << 20;

describe("how a command ends", () => {
  test("its exit code, its output and its errors come back", async () => {
    const ran = await yard.shell("echo out; echo err >&2; exit 7");
    expect(ran).toMatchObject({ reason: "exited", exitCode: 7, signal: null, stdout: "out\n", stderr: "err\n" });
  });

  test("a signal is named", async () => {
    const ran = await yard.shell("kill -SEGV $$");
    expect(ran).toMatchObject({ reason: "signalled", exitCode: null, signal: 11 });
  });

  test("a missing program is a failed start that names it", async () => {
    const ran = await yard.run(["/usr/bin/no-such-program"]);
    expect(ran).toMatchObject({ reason: "setup", message: "/usr/bin/no-such-program: No such file or directory" });
  });

  test("a missing mount is a failed start that names it", async () => {
    const ran = await yard.run(["/bin/true"], { mounts: [{ kind: "read_only", from: "/no/such", to: "/x" }] });
    expect(ran).toMatchObject({ reason: "setup", message: "/no/such: No such file or directory" });
  });

  test("a command reads its whole input, also more than a pipe holds", async () => {
    const stdin = new Uint8Array(5 * MIB).fill(65);
    expect((await yard.shell("wc -c", { io: { stdin } })).stdout.trim()).toBe(String(5 * MIB));
  });

  test("input that the command does not read blocks no process", async () => {
    const stdin = new Uint8Array(5 * MIB);
    expect(await yard.shell("exit 3", { io: { stdin } })).toMatchObject({ reason: "exited", exitCode: 3 });
    expect(await yard.shell("exec <&-; exit 4", { io: { stdin } })).toMatchObject({ exitCode: 4 });
  });

  test("the streams of a command can be opened by name", async () => {
    const script = "echo o > /dev/stdout; echo e > /dev/stderr; cat /dev/stdin";
    const ran = await yard.shell(script, { io: { stdin: new TextEncoder().encode("in\n") } });
    expect(ran).toMatchObject({ stdout: "o\nin\n", stderr: "e\n" });
  });
});

describe("time", () => {
  test("a command that takes too long is killed with all its processes", async () => {
    const ran = await yard.shell("sleep 60 & sleep 60", { limits: { wallMs: 200 } });
    expect(ran).toMatchObject({ reason: "timeout", exitCode: null, message: "it took longer than 200 ms" });
  });

  test("processor time has its own limit", async () => {
    const ran = await yard.shell("while :; do :; done", { limits: { cpuSeconds: 1 } });
    expect(ran).toMatchObject({ reason: "signalled", signal: 24 });
  });
});

describe("memory", () => {
  const held = (name: string, mib: number, lifted: boolean) =>
    yard.attacked(name, mib, { filter: "none", limits: { memoryBytes: lifted ? 0 : 64 * MIB } });

  test("one process cannot allocate more than the limit", async () => {
    expect((await yard.attacked("memory", 96)).lines["mmap"]).toBe("ENOMEM");
  });

  test("many processes are counted together", async () => {
    expect(await yard.attacked("many", 4)).toMatchObject({
      reason: "memory",
      stdout: expect.not.stringContaining("alive"),
    });
  });

  test("memory that processes share is counted once", async () => {
    const script = `perl -e '$x = "y" x (20 << 20); for (1..4) { fork or last } sleep 1; print "alive"'`;
    expect((await yard.shell(script)).stdout).toContain("alive");
  });

  test("files in memory count", async () => {
    const ran = await yard.shell("head -c 40000000 /dev/zero >/tmp/a; head -c 30000000 /dev/zero >/dev/shm/b; sleep 2");
    expect(ran.reason).toBe("memory");
  });

  // biome-ignore format: a table should look like one
  const attacks = [
    ["memory", 96, "more than the limit, of a program that is not held by its own data limit"],
    ["hidden_shared", 96, "shared memory that no process has in its tables any more"],
    ["page_tables", 96, "the tables of pages that are never written"],
    ["no_leader", 96, "a process whose main thread has ended"],
  ] as const;
  test.each(attacks)("%s %d MiB ends it: %s", async (name, mib) => {
    const ran = await held(name, mib, false);
    expect(ran).toMatchObject({ reason: "memory", message: "it used more than 67108864 bytes of memory" });
    expect(ran.stdout).not.toContain("alive");
  });
  // Each lives for two seconds.
  test.concurrent.each(attacks)("%s %d MiB is real: without the limit it lives", async (name, mib) => {
    expect((await held(name, mib, true)).stdout).toContain("alive");
  });

  test("a command that takes the guard's descriptors away gains nothing", async () => {
    expect((await yard.attacked("blind", 48)).lines["prlimit"]).toBe("EPERM");
    const ran = await yard.attacked("blind", 48, { filter: "none" });
    // The guard says this only when the call was let through. It may end the command before the command says so itself.
    expect(ran).toMatchObject({ reason: "memory", message: "its limits cannot be checked any more" });
  });

  test("buffers of sockets count", async () => {
    expect(await yard.attacked("sockets", 120, { limits: { memoryBytes: 16 * MIB } })).toMatchObject({
      reason: "memory",
    });
  });

  test("watches of epoll, of which the host's user has only so many, are bounded", async () => {
    const limits = { openFiles: 1024 };
    expect(await yard.attacked("watches", 100, { limits })).toMatchObject({
      reason: "memory",
      message: expect.stringContaining("epoll"),
      stdout: expect.not.stringContaining("alive"),
    });
    expect((await yard.attacked("watches", 20, { limits })).stdout).toBe(
      "watches: 20000\nwatches: held\nwatches: alive\n",
    );
  });

  test("no socket can make its buffers larger than the counted size", async () => {
    const { lines } = await yard.attacked("buffers", 2);
    for (const kind of ["tcp", "unix"]) expect(Number(lines[kind])).toBeWithin(1, MIB);
  });
});

describe("processes", () => {
  test("a fork bomb reaches its limit, and the limit is not shared with the machine", async () => {
    const ran = await yard.attacked("forks", 100, { limits: { processes: 24 } });
    expect(ran.lines["forks"]).toBe("23"); // the command is one
  });

  test("with a higher limit the same command has more", async () => {
    expect((await yard.attacked("forks", 100, { limits: { processes: 60 } })).lines["forks"]).toBe("59");
  });

  test("a shell's fork bomb ends with its time", async () => {
    const ran = await yard.shell("f() { f | f & }; f; exec sleep 60", { limits: { processes: 16, wallMs: 2000 } });
    expect(ran.reason).toBe("timeout");
    expect((await yard.shell("echo again")).stdout).toBe("again\n");
  });
});

describe("output", () => {
  test("a flood is read and dropped: the command does not block, and memory does not grow", async () => {
    type Report = { ran: Omit<Ran, "stdout"> & { stdout: number }; growthBytes: number };
    const { ran, growthBytes } = await aside<Report>("flooding_jail");
    expect(ran).toMatchObject({ reason: "exited", exitCode: 0, stderr: "done\n" });
    expect(ran.dropped).toEqual({ stdout: 200_000_000 - ran.stdout, stderr: 0 });
    expect(growthBytes).toBeLessThan(100 * MIB);
  });
});

describe("disk", () => {
  // biome-ignore format: a table should look like one
  const attacks = [
    ["one file", "head -c 40000000 /dev/zero > big; sleep 2", "it wrote more than 16777216 bytes"],
    ["many files", "for i in 1 2 3 4 5 6 7 8; do head -c 4000000 /dev/zero > f$i; done; sleep 2", "it wrote more than 16777216 bytes"],
    ["many empty files", "/attack entries 3000", "it made more than 500 files and directories"],
    ["a file without a name", "/attack unlinked 40", "it wrote more than 16777216 bytes"],
    ["a file that only a mapping keeps", "/attack mapped 60", "it keeps open files that were deleted"],
    ["a file that only a message keeps", "/attack in_flight 60", "it keeps open files that were deleted"],
    ["directories nobody may read", "mkdir d; head -c 40000000 /dev/zero > d/f; chmod 0 d; sleep 2", "it wrote more than 16777216 bytes"],
    ["directories without an end", "/attack deep 400", "its directories are too deep"],
  ] as const;
  test.each(attacks)("%s: everything in the jail is killed", async (_, script, message) => {
    const ran = await yard.shell(script);
    expect(ran).toMatchObject({ reason: "disk", message });
    expect(ran.stdout).not.toContain("alive");
  });

  test("files that move away during the count are counted", async () => {
    const limits = { disk: { at: "/workspace", bytes: 16 * MIB, entries: 5000 } };
    for (let i = 0; i < 3; i++) expect(await yard.attacked("moving", 96, { limits })).toMatchObject({ reason: "disk" });
  });

  test("a count that pauses all processes does a command no harm", async () => {
    const at = yard.workspace();
    const other = join(yard.dir, "other");
    const script = "trap 'echo held' CONT; for i in $(seq 20); do sleep 0.05; date > f; done; echo fine";
    const running = yard.shell(script, {}, at);
    await until("it to begin", () => readdirSync(at).length > 0);
    for (let i = 0; i < 4; i++) writeFileSync(`${other}${i}`, new Uint8Array(20 * MIB));
    const ran = await running;
    expect(ran).toMatchObject({ reason: "exited", exitCode: 0, stderr: "" });
    expect(ran.stdout).toMatch(/^(held\n)+fine\n$/);
  });

  test("the attacks are real: without the limit the processes live", async () => {
    const ran = await yard.attacked("unlinked", 40, {
      limits: { disk: { at: "/workspace", bytes: 1e9, entries: 1e6 } },
    });
    expect(ran.stdout).toContain("alive");
  });

  test("one file may not be longer than allowed, even if the disk has room", async () => {
    const ran = await yard.shell("head -c 3000000 /dev/zero > big", { limits: { fileBytes: MIB } });
    expect(ran).toMatchObject({ reason: "exited", exitCode: 128 + 25 });
  });

  test("a command over the limit can still delete files", async () => {
    const at = yard.workspace();
    writeFileSync(join(at, "big"), new Uint8Array(20 * MIB));
    expect(await yard.shell("sleep 0.3; rm -f big; sleep 0.3; ls", {}, at)).toMatchObject({
      reason: "exited",
      exitCode: 0,
    });
    expect(readdirSync(at)).toEqual([]);
  });

  test("a command over the limit cannot add files", async () => {
    const at = yard.workspace();
    writeFileSync(join(at, "big"), new Uint8Array(20 * MIB));
    expect(await yard.shell("sleep 0.3; head -c 5000000 /dev/zero > more; sleep 2", {}, at)).toMatchObject({
      reason: "disk",
    });
  });
});
