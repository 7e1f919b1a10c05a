import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { ATTACK, openYard, withoutJail } from "./jail_kit.ts";

const yard = openYard();
const secret = join(yard.dir, "secret");
const open = join(yard.dir, "open"); // a directory where all users may write
const abstract = `verk-test-${process.pid}`;
const servers: Server[] = [];
let port = 0;

const listening = (address: number | string) =>
  new Promise<Server>((done) => {
    const server = createServer((socket) => socket.end());
    servers.push(server);
    if (typeof address === "number") server.listen(address, "127.0.0.1", () => done(server));
    else server.listen(address, () => done(server));
  });

beforeAll(async () => {
  writeFileSync(secret, "of the host");
  mkdirSync(open);
  chmodSync(open, 0o777);
  port = ((await listening(0)).address() as { port: number }).port;
  await listening(`\0${abstract}`);
});
afterAll(() => {
  for (const server of servers) server.close();
  rmSync(yard.dir, { recursive: true, force: true });
});

describe("files", () => {
  test("only programs of the host are visible", async () => {
    const { stdout } = await yard.shell("ls /; ls /etc; ls -A /tmp /dev/shm /workspace");
    const names = new Set(stdout.split("\n"));
    for (const name of ["home", "root", "run", "var", "sys", "boot", "shadow", "machine-id"]) {
      expect(names.has(name)).toBe(false);
    }
  });

  test("host files cannot be read, by their path or around it", async () => {
    const around = [secret, "/etc/shadow", "/proc/1/root/etc/shadow", "/proc/1/cwd/etc", `/workspace/../..${secret}`];
    const { lines } = await yard.run([ATTACK, "read", ...around, "/sys", "/dev/kmsg", "/dev/mem", "/proc/kcore"]);
    expect(Object.values(lines).filter((how) => how === "ok")).toEqual([]);
    expect(Object.keys(lines)).toHaveLength(9);
  });

  test("the same file is read without the jail", async () => {
    expect(await withoutJail(yard, "read", secret)).toEqual({ [secret]: "ok" });
  });

  test("only the workspace, /tmp and /dev/shm can be written", async () => {
    const at = yard.workspace();
    const there = ["/x", "/usr/x", "/usr/bin/x", "/etc/x", "/etc/passwd", "/dev/x", "/proc/x", `${open}/x`, ATTACK];
    const here = ["/workspace/x", "/tmp/x", "/dev/shm/x"];
    const { lines } = await yard.run([ATTACK, "write", ...there, ...here], {}, at);
    expect(Object.entries(lines).filter(([, how]) => how === "ok")).toEqual(here.map((path) => [path, "ok"]));
    expect(readdirSync(open)).toEqual([]);
    expect(readdirSync(at)).toEqual(["x"]);
  });

  test("the same path can be written without the jail", async () => {
    expect(await withoutJail(yard, "write", join(open, "proof"))).toEqual({ [join(open, "proof")]: "ok" });
    rmSync(join(open, "proof"));
  });

  test("a link left in the workspace leads a later mount nowhere but inside", async () => {
    const at = yard.workspace();
    await yard.shell(`ln -s ${open} volume; ln -s /../../../..${open} deeper`, {}, at);
    const mounts = ["volume", "deeper"].map((name) => ({
      kind: "writable" as const,
      from: yard.workspace(),
      to: `/workspace/${name}/made/here`,
    }));
    await yard.shell("ls", { mounts }, at);
    expect(readdirSync(open)).toEqual([]);
  });

  test("a written file belongs to the user, and keeps no setuid bits", async () => {
    const at = yard.workspace();
    const { lines } = await yard.shell("cp /bin/sh s; chmod 6755 s; ./s -p -c 'echo uid: $(id -u)'", {}, at);
    expect(lines["uid"]).toBe("1000");
  });

  test.skipIf(!existsSync("/usr/bin/su"))("setuid programs do not become root", async () => {
    const { stdout } = await yard.shell("su -c id root; mount -t tmpfs none /tmp; newgrp root </dev/null; id -u");
    expect(stdout.trim().split("\n").at(-1)).toBe("1000");
    expect(stdout).not.toContain("uid=0");
  });
});

describe("system calls", () => {
  test("system calls that no program needs are refused", async () => {
    const { lines } = await yard.run([ATTACK, "calls"]);
    const { socket, ...refused } = lines;
    expect(socket).toBe("ok"); // of its own, empty network
    expect(Object.entries(refused).filter(([, how]) => how === "ok")).toEqual([]);
    expect(refused).toMatchObject({
      memfd_create: "ENOSYS",
      io_uring_setup: "ENOSYS",
      netlink: "EAFNOSUPPORT",
      tiocsti: "EPERM",
      "tiocsti high": "EPERM",
      subvolume: "EPERM",
      splice: "ENOSYS",
      sendfile: "ENOSYS",
      oom: "EROFS",
    });
  });

  test("the filter causes the refusal: without the filter more calls succeed", async () => {
    const { lines } = await yard.run([ATTACK, "calls"], { filter: "none" });
    expect(lines).toMatchObject({ memfd_create: "ok", shmget: "ok", ptrace: "ok", netlink: "ok" });
  });

  test("L2: the host's asynchronous I/O and its page cache are out of reach, and only the filter keeps them so", async () => {
    const [held, open] = await Promise.all(
      (["session", "none"] as const).map((filter) => yard.run([ATTACK, "calls"], { filter })),
    );
    expect(held?.lines).toMatchObject({ io_setup: "ENOSYS", cachestat: "EPERM" });
    expect(open?.lines).toMatchObject({ io_setup: "ok" });
    expect(["ok", "ENOSYS"]).toContain(open?.lines["cachestat"] ?? ""); // kernels before 6.5 do not have it
  });

  test("no call can make a namespace inside", async () => {
    const { lines } = await yard.run([ATTACK, "namespaces"]);
    expect(Object.entries(lines).filter(([, how]) => how === "ok")).toEqual([]);
    expect(lines["clone3 user"]).toBe("ENOSYS");
  });

  test("no namespace can be made without the filter either: the namespace itself allows no more", async () => {
    const { lines } = await yard.run([ATTACK, "namespaces"], { filter: "none" });
    expect(Object.entries(lines).filter(([, how]) => how === "ok")).toEqual([]);
    expect(lines["unshare user"]).toBe("ENOSPC");
  });

  test("the same calls succeed without the jail", async () => {
    expect(await withoutJail(yard, "namespaces")).toMatchObject({ "clone user": "ok", "clone3 user": "ok" });
  });
});

describe("the guard", () => {
  test("pid 1 can neither be killed, stopped, traced nor read, and keeps watching", async () => {
    for (const filter of ["session", "none"] as const) {
      const ran = await yard.run([ATTACK, "init"], { filter, limits: { wallMs: 3_000 } });
      expect(ran.reason).toBe("timeout");
      const { kill, stop, ...refused } = ran.lines;
      expect({ kill, stop }).toEqual({ kill: "ok", stop: "ok" }); // sent, and never received
      expect(Object.entries(refused).filter(([, how]) => how === "ok")).toEqual([]);
    }
  });

  test("the command has no privileges: no capabilities, no way to gain any, no descriptor but its own", async () => {
    const { stdout } = await yard.shell("cat /proc/self/status; ls /proc/self/fd | tr '\\n' ' '; env; hostname");
    for (const set of ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"])
      expect(stdout).toContain(`${set}:\t0000000000000000`);
    expect(stdout).toContain("NoNewPrivs:\t1");
    expect(stdout).toContain("Seccomp:\t2");
    expect(stdout).toContain("\n0 1 2 3 "); // 3 is ls reading the directory
    expect(stdout).not.toContain(process.cwd());
  });

  test("the spec and the name of a command are in no argument and no environment of the host", async () => {
    const mark = `secret-${process.pid}`;
    const script = "cat; true";
    const ran = await yard.shell(script, { io: { stdin: new TextEncoder().encode(mark) } });
    expect(ran.stdout).toBe(mark);
    expect(readFileSync("/proc/self/cmdline", "utf8")).not.toContain(mark);
  });
});

describe("network", () => {
  test("the host's loopback is out of reach", async () => {
    expect((await yard.attacked("connect", port)).lines["connect"]).toBe("ECONNREFUSED");
    expect((await yard.attacked("abstract", abstract)).lines["abstract"]).toBe("ECONNREFUSED");
  });

  test("its own loopback works", async () => {
    const script = `perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1") or die; print "connect: ", IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $l->sockport) ? "ok" : "no"'`;
    expect((await yard.shell(script)).stdout).toBe("connect: ok");
  });

  test("the listener exists: without the jail both addresses answer", async () => {
    expect(await withoutJail(yard, "connect", String(port))).toEqual({ connect: "ok" });
    expect(await withoutJail(yard, "abstract", abstract)).toEqual({ abstract: "ok" });
  });

  test("with the host's network, addresses are reached and nameless sockets of the host's daemons are not", async () => {
    expect((await yard.attacked("connect", port, { network: "host" })).lines["connect"]).toBe("ok");
    const { lines } = await yard.attacked("abstract", abstract, { network: "host" });
    expect(["EPERM", "EAFNOSUPPORT"]).toContain(lines["abstract"]!); // by landlock where it can, else no such sockets
  });
});
