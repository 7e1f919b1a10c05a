// tier: all (many jails)
import { afterEach, expect, test } from "bun:test";
import { lstatSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { manyApps, type TestApp } from "../harness.ts";
import { contentPath, exec, newSession, put } from "./sessions_kit.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const volume = async (app: TestApp, name: string, files: Record<string, string> = {}) => {
  await app.call("POST", "/v1/volumes", { name });
  for (const [path, raw] of Object.entries(files))
    await app.call("PUT", `/v1/volumes/${name}/files/${path}`, undefined, { raw });
};
const fileOf = async (app: TestApp, name: string, path: string) =>
  (await app.call("GET", `/v1/volumes/${name}/files/${path}`)).body as string;
const pathsOf = async (app: TestApp, name: string) =>
  (await app.call("GET", `/v1/volumes/${name}/files?limit=100`)).body.data.map(({ path }: { path: string }) => path);
const writable = (name: string) => ({ volumes: [{ name, mount_path: "/workspace/out", read_only: false }] });

test("a volume is mounted at its path, read-only", async () => {
  const app = open();
  await volume(app, "lib", { "a.txt": "A", "deep/b.txt": "B" });
  const made = await newSession(app, { volumes: [{ name: "lib", mount_path: "/data/lib" }] });
  expect(made.volumes).toEqual([{ name: "lib", mount_path: "/data/lib", read_only: true }]);
  expect((await exec(app, made.id, "cat /data/lib/a.txt /data/lib/deep/b.txt; ls /data/lib")).stdout).toBe(
    "ABa.txt\ndeep\n",
  );
  const attacks = [
    "echo x > /data/lib/a.txt",
    "chmod 777 /data/lib/a.txt",
    "rm -f /data/lib/a.txt",
    "touch /data/lib/new",
    "ln /data/lib/a.txt /workspace/a",
  ];
  for (const attack of attacks) expect((await exec(app, made.id, attack)).status).toBe("failed");
  expect(await fileOf(app, "lib", "a.txt")).toBe("A");
});

test("a read-only volume below /workspace refuses every write, of commands and of calls", async () => {
  const app = open();
  await volume(app, "lib", { "a.txt": "A", "deep/b.txt": "B" });
  const { id } = await newSession(app, { volumes: [{ name: "lib", mount_path: "/workspace/in/lib" }] });
  const attacks = ["rm -f in/lib/a.txt", "echo changed > in/lib/a.txt", "touch in/lib/new", "mkdir in/lib/d"];
  for (const attack of attacks) {
    const { status, stderr } = await exec(app, id, attack);
    expect([status, stderr]).toEqual(["failed", expect.stringContaining("Read-only file system")]);
  }
  for (const attack of ["mv in/lib elsewhere", "rm -rf in/lib", "chmod 777 in/lib/a.txt", "umount in/lib"])
    expect((await exec(app, id, attack)).status).toBe("failed");
  expect((await exec(app, id, { command: "cat a.txt deep/b.txt", cwd: "/workspace/in/lib" })).stdout).toBe("AB");
  await exec(app, id, "ln -s in/lib link");
  for (const path of ["/workspace/in/lib/a.txt", "/workspace/in/lib/new", "/workspace/link/new", "/workspace/in/lib"]) {
    const answer = await put(app, id, path, "changed");
    expect([answer.status, answer.body.error?.message]).toEqual([400, expect.stringContaining("read-only")]);
  }
  const removed = await app.call("DELETE", contentPath(id, "/workspace/link/a.txt"));
  expect(removed.body.error.message).toContain("read-only");
  expect([await fileOf(app, "lib", "a.txt"), await pathsOf(app, "lib")]).toEqual(["A", ["a.txt", "deep/b.txt"]]);
});

test("calls list and read a read-only volume below /workspace at its path", async () => {
  const app = open();
  await volume(app, "lib", { "a.txt": "A", "deep/b.txt": "B" });
  const { id } = await newSession(app, { volumes: [{ name: "lib", mount_path: "/workspace/lib" }] });
  const listed = async (path: string) => (await app.call("GET", `/v1/sessions/${id}/files?path=${path}`)).body;
  expect((await listed("/workspace")).entries).toEqual([{ name: "lib", type: "directory" }]);
  expect(await listed("/workspace/lib")).toMatchObject({
    path: "/workspace/lib",
    entries: [
      { name: "a.txt", type: "file" },
      { name: "deep", type: "directory" },
    ],
  });
  expect(await listed("/workspace/x/../lib/deep/b.txt")).toMatchObject({ path: "/workspace/lib/deep/b.txt", size: 1 });
  expect((await app.call("GET", contentPath(id, "/workspace/lib/deep/b.txt"))).body).toBe("B");
  const missing = await app.call("GET", contentPath(id, "/workspace/lib/none"));
  expect([missing.status, missing.body.error.message]).toEqual([404, "No file /workspace/lib/none"]);
  expect((await app.call("GET", contentPath(id, "/workspace/lib/../../../etc/passwd"))).status).toBe(400);
});

test("a session of an older version keeps its copy of a read-only volume in its workspace", async () => {
  const app = open();
  await volume(app, "lib", { "a.txt": "A" });
  const { id } = await newSession(app, { volumes: [{ name: "lib", mount_path: "/workspace/lib" }] });
  const session = join(app.dir, "sessions", id);
  rmSync(join(session, "root/workspace/lib"), { recursive: true });
  renameSync(join(session, "volumes/0"), join(session, "root/workspace/lib"));
  expect((await exec(app, id, "cat lib/a.txt")).stdout).toBe("A");
  expect((await app.call("GET", contentPath(id, "/workspace/lib/a.txt"))).body).toBe("A");
});

test("changes in a writable volume are written back after each command and each call", async () => {
  const app = open();
  await volume(app, "out", { "keep.txt": "keep", "change.txt": "old", "gone.txt": "gone" });
  const { id } = await newSession(app, writable("out"));
  const told = await exec(
    app,
    id,
    "cd out; printf new > change.txt; rm gone.txt; mkdir -p d; printf made > d/made.txt",
  );
  expect(told).toMatchObject({ status: "completed", volume_errors: [] });
  expect(await pathsOf(app, "out")).toEqual(["change.txt", "d/made.txt", "keep.txt"]);
  expect([await fileOf(app, "out", "change.txt"), await fileOf(app, "out", "d/made.txt")]).toEqual(["new", "made"]);
  await put(app, id, "/workspace/out/put.txt", "put");
  expect(await fileOf(app, "out", "put.txt")).toBe("put");
  await app.call("DELETE", contentPath(id, "/workspace/out/d", "&recursive=true"));
  expect(await pathsOf(app, "out")).toEqual(["change.txt", "keep.txt", "put.txt"]);
  const events = app.ctx.db.$client.query(
    "SELECT count(*) AS n FROM events WHERE type = 'volume_file.written' AND subject_id LIKE '%keep.txt'",
  );
  expect(events.get()).toEqual({ n: 1 }); // what did not change is not written again
});

test("a command that failed or was ended has its changes written back too", async () => {
  const app = open();
  await volume(app, "out");
  const { id } = await newSession(app, writable("out"));
  await exec(app, id, "printf x > out/half.txt; exit 1");
  expect(await fileOf(app, "out", "half.txt")).toBe("x");
  await exec(app, id, { command: "printf y > out/half.txt; sleep 3600", timeout_seconds: 3 });
  expect(await fileOf(app, "out", "half.txt")).toBe("y");
});

test("files that cannot be kept are named, and stay in the session", async () => {
  const app = open({ flags: { "volumes.quota_bytes": 100 } });
  await volume(app, "out");
  const { id } = await newSession(app, writable("out"));
  const told = await exec(
    app,
    id,
    "cd out; ln -s /etc/passwd link; mkfifo fifo; head -c 500 /dev/zero > large; printf s > small",
  );
  expect(told.status).toBe("completed");
  expect(told.volume_errors.map(({ path }) => path).sort()).toEqual(["fifo", "large", "link"]);
  expect(told.volume_errors.find(({ path }) => path === "large")?.message).toContain("100 bytes");
  expect(await pathsOf(app, "out")).toEqual(["small"]);
  expect((await exec(app, id, "stat -c %s out/large")).stdout).toBe("500\n");
});

test("after a restart only new changes and deletions are written back", async () => {
  const app = open();
  await volume(app, "out", { "a.txt": "a", "b.txt": "b" });
  const { id } = await newSession(app, writable("out"));
  const again = open({ dir: app.dir });
  const run = (command: string) => again.call("POST", `/v1/sessions/${id}/exec`, { command }, { key: app.keyA });
  await run("rm out/a.txt; printf c > out/c.txt");
  expect(await pathsOf(app, "out")).toEqual(["b.txt", "c.txt"]);
});

test("a directory that was moved away is reported, and deletes nothing", async () => {
  const app = open();
  await volume(app, "out", { "a.txt": "a" });
  const { id } = await newSession(app, writable("out"));
  const told = await exec(app, id, "mv out elsewhere; ln -s / out");
  expect(told.volume_errors[0]?.message).toContain("not a directory");
  expect(await pathsOf(app, "out")).toEqual(["a.txt"]);
});

test("volumes that do not fit, or are not the caller's, are refused", async () => {
  const app = open({ flags: { "sessions.disk_mib": 1 } });
  await volume(app, "big", { "a.bin": "x".repeat(2_000_000) });
  const large = await app.call("POST", "/v1/sessions", { volumes: [{ name: "big", mount_path: "/workspace/big" }] });
  expect({ status: large.status, code: large.body.error.code, param: large.body.error.param }).toEqual({
    status: 422,
    code: "quota_exceeded",
    param: "/volumes",
  });
  const foreign = await app.call(
    "POST",
    "/v1/sessions",
    { volumes: [{ name: "big", mount_path: "/data" }] },
    { key: app.keyB },
  );
  expect({ status: foreign.status, param: foreign.body.error.param }).toEqual({
    status: 404,
    param: "/volumes/0/name",
  });
});

test("stored content is never the file that a session can write", async () => {
  const app = open();
  await volume(app, "out", { "a.txt": "stored" });
  const { id } = await newSession(app, writable("out"));
  const file = join(app.dir, "sessions", id, "root/workspace/out/a.txt");
  expect(lstatSync(file).nlink).toBe(1);
});
