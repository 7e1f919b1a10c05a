// tier: all (whole paths on the executable)
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { NR } from "../../src/native/syscalls.ts";
import type { Exec } from "../../src/resources/machines/sessions/schema.ts";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { violations } from "../fault/invariants.ts";
import { tempDir, until } from "../harness.ts";
import { asNobody, isRoot, NOBODY } from "../sandbox/nobody.ts";
import { processesWith } from "../sandbox/sessions_kit.ts";

/** Sessions of the executable, which runs as an unprivileged user. After any command, the session still answers. */
const root = tempDir();
const data = join(root, "data");
const secret = join(root, "secret.txt");
let server: Awaited<ReturnType<typeof startBinary>>;
let key: string;

const start = () =>
  startBinary({
    dir: data,
    prefix: asNobody([]),
    env: {
      SECRET_OF_THE_HOST: "host-token-5521",
      VERK_SESSIONS__MEMORY_MIB: "128",
      VERK_SESSIONS__PROCESSES: "32",
      VERK_SESSIONS__DISK_MIB: "16",
      VERK_SESSIONS__DISK_ENTRIES: "2000",
      VERK_SESSIONS__OUTPUT_BYTES: "65536",
      VERK_HTTP__RATE_LIMIT_PER_SECOND: "0",
    },
  });

beforeAll(async () => {
  mkdirSync(data);
  writeFileSync(secret, "the host's");
  chmodSync(root, 0o755);
  chmodSync(secret, 0o644);
  if (isRoot) chownSync(data, NOBODY, NOBODY);
  server = await start();
  key = (await makeKey(data)).key;
});
afterAll(async () => {
  await server.kill();
  expect(violations(data)).toEqual([]);
  rmSync(root, { recursive: true, force: true });
});

const call = (method: string, path: string, json?: unknown) => server.call(method, `/v1/sessions${path}`, json);
const newSession = async (body: object = {}) => (await call("POST", "", body)).body.id as string;
const exec = async (id: string, command: string, timeout_seconds = 20): Promise<Exec> =>
  (await call("POST", `/${id}/exec`, { command, timeout_seconds })).body;
const rssOf = (pid: number) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024;
const diskOf = (dir: string) => Number(Bun.spawnSync(["du", "-s", "-B1", dir]).stdout.toString().split("\t")[0]);

test("the server runs as an ordinary user, who also owns the files of its sessions", async () => {
  const id = await newSession();
  await exec(id, "touch made");
  expect(/Uid:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))?.[1]).not.toBe("0");
  expect(statSync(join(data, "sessions", id, "root/workspace/made")).uid).toBe(statSync(data).uid);
});

test("unreadable, nested and odd files are deleted by a call, and with the session", async () => {
  const id = await newSession();
  const make =
    "mkdir -p a/b/c; touch a/b/c/x; ln -s / a/b/l; mkfifo a/f; touch \"a/$(printf '\\377')\"; chmod 0 a/b/c; chmod 100 a/b; chmod 500 a";
  await exec(id, make);
  expect((await call("GET", `/${id}/files?path=/workspace/a/b/c`)).status).toBe(400);
  expect((await call("DELETE", `/${id}/files/content?path=/workspace/a&recursive=true`)).status).toBe(200);
  expect((await call("GET", `/${id}/files`)).body.entries).toEqual([]);
  await exec(id, make);
  await call("POST", `/${id}/stop`);
  await until("its files to go", () => !existsSync(join(data, "sessions", id)));
});

describe("a command cannot", () => {
  test.each([
    ["take all processes", "f() { f | f & }; f; sleep 2; exit 1"],
    ["take all memory", "perl -e 'my @x; push @x, \"a\" x 1e6 while 1'"],
    [
      "take all memory with many processes",
      "for i in 1 2 3 4 5 6 7 8 9 10; do perl -e '$x = \"a\" x 3e7; sleep 60' & done; wait; exit 1",
    ],
    [
      "take all memory by /tmp",
      "head -c 500000000 /dev/zero > /tmp/x; head -c 500000000 /dev/zero > /dev/shm/x; exit 1",
    ],
    ["fill the disk", "for i in $(seq 100); do head -c 4000000 /dev/zero > f$i; done; sleep 2; exit 1"],
    ["fill the disk with small files", "i=0; while :; do : > f$i; i=$((i+1)); done"],
    [
      "fill the disk with a file that has no name",
      "exec 3> f; rm f; while :; do head -c 1000000 /dev/zero >&3 || exit 1; sleep 0.02; done",
    ],
    ["nest namespaces", "unshare -Ur true"],
    ["mount", "mount -t tmpfs none /tmp"],
    ["read the host's files", `cat ${secret} /etc/shadow ${data}/verk.db`],
    [
      "see the host's network",
      "perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0); connect(S, sockaddr_in(PORT, inet_aton(\"127.0.0.1\"))) or die'",
    ],
    ["kill what guards it", "kill -9 1; kill -9 -1; exit 1"],
  ])(
    "%s",
    async (_what, command) => {
      const id = await newSession();
      const told = await exec(id, command.replace("PORT", new URL(server.url).port));
      expect(["failed", "memory_exceeded", "disk_exceeded", "timeout"]).toContain(told.status);
      expect(told.stdout + told.stderr).not.toContain("the host's");
      expect(await exec(id, "echo fine")).toMatchObject({ status: "completed", stdout: "fine\n" });
      expect(diskOf(join(data, "sessions", id))).toBeLessThan(100e6);
      expect((await call("POST", `/${id}/stop`)).body.status).toBe("stopped");
      expect(server.child.exitCode).toBeNull();
    },
    120_000,
  );

  test("see variables of the server", async () => {
    const id = await newSession();
    const { stdout } = await exec(id, "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'");
    expect(stdout).toContain("HOME=/workspace");
    expect(stdout).not.toContain("host-token-5521");
  });

  test("make the server hold a gigabyte of output, buffered or streamed", async () => {
    const id = await newSession();
    const before = rssOf(server.pid);
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, rssOf(server.pid));
    }, 50);
    const told = await exec(id, "yes | head -c 1000000000; echo over >&2", 60);
    const response = await fetch(`${server.url}/v1/sessions/${id}/exec`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ command: "yes | head -c 1000000000; touch over", stream: true }),
    });
    await until("it to end unread", () => existsSync(join(data, "sessions", id, "root/workspace/over")), 60_000);
    await response.body?.cancel();
    clearInterval(watch);
    expect(told).toMatchObject({ status: "completed", truncated: true, stderr: "over\n" });
    expect(told.stdout.length).toBe(65_536);
    expect(most - before).toBeLessThan(150e6);
  }, 120_000);

  test("leave a process behind", async () => {
    const id = await newSession();
    const mark = `mark-${crypto.randomUUID()}`;
    const told = await exec(id, `(setsid sh -c 'trap "" TERM HUP; sleep 300; : ${mark}' >/dev/null 2>&1 &) ; echo bye`);
    expect(told.stdout).toBe("bye\n");
    expect(await processesWith(mark)).toEqual([]);
  });
});

test("an unreadable workspace works for commands, and refuses file calls with a message", async () => {
  const id = await newSession();
  expect(await exec(id, "chmod 0 /workspace")).toMatchObject({ status: "completed" });
  const put = await fetch(`${server.url}/v1/sessions/${id}/files/content?path=/workspace/a`, {
    method: "PUT",
    headers: { authorization: `Bearer ${key}` },
    body: "x",
  });
  expect([put.status, ((await put.json()) as { error: { code: string } }).error.code]).toEqual([422, "quota_exceeded"]);
  expect((await call("GET", `/${id}/files`)).status).toBe(400);
  await server.kill();
  server = await start(); // which has to measure again
  expect(await exec(id, "chmod 755 /workspace; echo mine")).toMatchObject({
    stdout: "mine\n",
    warning: expect.any(String),
  });
  expect((await call("GET", `/${id}/files`)).status).toBe(200);
});

test("files that a command hides in a writable volume do not count as deleted", async () => {
  const volume = (method: string, path: string, json?: object) =>
    fetch(`${server.url}/v1/volumes${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      ...(json ? { body: JSON.stringify(json) } : {}),
    });
  await volume("POST", "", { name: "kept" });
  const id = await newSession({ volumes: [{ name: "kept", mount_path: "/workspace/kept", read_only: false }] });
  await exec(id, "mkdir kept/dir; echo 1 > kept/dir/a; echo 2 > kept/b");
  const { volume_errors } = await exec(id, "chmod 0 kept/dir; rm kept/b; echo 3 > kept/c");
  expect(volume_errors).toMatchObject([{ volume: "kept", message: expect.stringContaining("cannot be read") }]);
  const there = async (path: string) => (await volume("GET", `/kept/files/${path}`)).status;
  expect([await there("dir/a"), await there("b"), await there("c")]).toEqual([200, 200, 200]);
  expect((await exec(id, "chmod 700 kept/dir")).volume_errors).toEqual([]);
  expect([await there("dir/a"), await there("b"), await there("c")]).toEqual([200, 404, 200]);
});

test("a read-only volume takes no room, and cannot be changed through the session", async () => {
  const volume = (method: string, path: string, body?: string) =>
    fetch(`${server.url}/v1/volumes${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(path === "" ? { "content-type": "application/json" } : {}) },
      ...(body === undefined ? {} : { body }),
    });
  await volume("POST", "", '{"name":"lib"}');
  await volume("PUT", "/lib/files/dir/a.txt", "stored");
  const id = await newSession({ volumes: [{ name: "lib", mount_path: "/data" }] });
  const file = join(data, "sessions", id, "volumes/0/dir/a.txt");
  expect(statSync(file).nlink).toBe(2); // the stored content itself
  expect((await exec(id, "cat /data/dir/a.txt")).stdout).toBe("stored");
  const attacks = [
    "echo x >> /data/dir/a.txt",
    "chmod 666 /data/dir/a.txt",
    "rm /data/dir/a.txt",
    "ln /data/dir/a.txt a",
    "touch /data/dir/a.txt",
  ];
  for (const attack of attacks) expect((await exec(id, attack)).status).toBe("failed");
  const { mode } = statSync(file);
  await call("POST", `/${id}/stop`);
  await until("its files to go", () => !existsSync(join(data, "sessions", id)));
  expect(await (await volume("GET", "/lib/files/dir/a.txt")).text()).toBe("stored");
  expect(mode & 0o077).toBe(0);
});

test("while a command swaps names 20,000 times, no call leaves the workspace", async () => {
  const id = await newSession();
  const swap = `syscall(${NR.renameat2}, -100, $a, -100, $b, 2) == 0 or die; $n++`; // RENAME_EXCHANGE
  const command = `mkdir dir; echo inside > dir/secret.txt; ln -s ${root} evil; ln -s ../../../../.. evil/x 2>/dev/null
    perl -e '($a, $b, $n) = ("dir", "evil", 0); while ($n <= 20000 || !-e "stop") { ${swap} } print $n'`;
  const swapping = exec(id, command, 600);
  await until("it to begin", () => existsSync(join(data, "sessions", id, "root/workspace/evil")));
  const seen = new Set<string>();
  for (let i = 0; i < 1500; i++) {
    const listed = await call("GET", `/${id}/files?path=/workspace/dir`);
    seen.add(listed.status === 200 ? JSON.stringify(listed.body.entries) : String(listed.status));
    const read = await fetch(`${server.url}/v1/sessions/${id}/files/content?path=/workspace/dir/secret.txt`, {
      headers: { authorization: `Bearer ${key}` },
    });
    const text = await read.text(); // also of a refusal, or its connection stays taken
    seen.add(read.status === 200 ? text : String(read.status));
  }
  await exec(id, "touch stop");
  expect(Number((await swapping).stdout)).toBeGreaterThan(20_000);
  const fine = ['[{"name":"secret.txt","type":"file"}]', "inside\n", "400", "404"];
  expect([...seen].filter((each) => !fine.includes(each))).toEqual([]);
  expect(seen.has("inside\n") && seen.has("400")).toBe(true);
}, 600_000);

test("a kill of the server leaves no process, and its sessions answer after the restart", async () => {
  const [busy, half] = [await newSession({ env: { A: "kept" } }), await newSession()];
  const mark = `mark-${crypto.randomUUID()}`;
  const running = exec(busy, `echo here > file; setsid sh -c 'sleep 300; : ${mark}' & sleep 300; : ${mark}`).catch(
    () => "cut off",
  );
  await until("it to run", async () => (await processesWith(mark)).length >= 2);
  const upload = fetch(`${server.url}/v1/sessions/${half}/files/content?path=/workspace/half`, {
    method: "PUT",
    headers: { authorization: `Bearer ${key}` },
    body: new ReadableStream({
      async pull(controller) {
        controller.enqueue(new Uint8Array(1000));
        await Bun.sleep(20);
      },
    }),
  }).catch(() => "cut off");
  const incoming = join(data, "sessions", half, "incoming");
  await until("the file to be on its way", () => readdirSync(incoming).length > 0);
  await server.kill("SIGKILL");
  expect([await running, await upload]).toEqual(["cut off", "cut off"]);
  await until("all to be gone", async () => (await processesWith(mark)).length === 0);
  expect(violations(data)).toEqual([]);
  server = await start();
  expect(await exec(busy, "cat file; echo $A")).toMatchObject({ status: "completed", stdout: "here\nkept\n" });
  expect((await call("GET", `/${half}/files`)).body.entries).toEqual([]);
  await until("what was on its way to be removed", () => readdirSync(incoming).length === 0);
}, 120_000);

test("a stopping server answers running commands as cancelled and exits in time", async () => {
  const id = await newSession();
  const running = exec(id, "touch begun; sleep 300");
  await until("it to run", () => existsSync(join(data, "sessions", id, "root/workspace/begun")));
  const stopped = server.kill("SIGTERM");
  expect((await running).status).toBe("cancelled");
  expect((await stopped).code).toBe(0);
  server = await start();
  expect((await call("GET", `/${id}/files`)).body.entries).toEqual([{ name: "begun", type: "file" }]);
}, 120_000);
