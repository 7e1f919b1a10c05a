// tier: all (many jails)
import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { durable, write } from "../../src/platform/db/db.ts";
import { purge } from "../../src/purge.ts";
import { reconcile } from "../../src/resources/machines/sessions/reconcile.ts";
import { CreateSession } from "../../src/resources/machines/sessions/schema.ts";
import * as sessions from "../../src/resources/machines/sessions/service.ts";
import { violations } from "../fault/invariants.ts";
import { fakeClock, manyApps, type TestApp, until } from "../harness.ts";
import { contentPath, exec, newSession, put } from "./sessions_kit.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const get = async (app: TestApp, id: string) => (await app.call("GET", `/v1/sessions/${id}`)).body;
const dirOf = (app: TestApp, id: string) => join(app.dir, "sessions", id);
/** Ticks until the files of a session are gone. */
const removed = (app: TestApp, id: string) =>
  until("its files to be removed", async () => {
    await reconcile(app.ctx);
    return sessions.find(app.ctx, id)?.removedAt !== null && !existsSync(dirOf(app, id));
  });
const eventsOf = (app: TestApp, id: string) =>
  (
    app.ctx.db.$client.query("SELECT type FROM events WHERE subject_id = ? ORDER BY seq").all(id) as { type: string }[]
  ).map(({ type }) => type);

describe("a session", () => {
  test("is ready, shows only the names of its variables, and lives until it is stopped", async () => {
    const app = open();
    const made = await newSession(app, { name: "lab", env: { TOKEN: "s3cr3t-value" }, metadata: { a: "b" } });
    expect(made).toMatchObject({ object: "session", name: "lab", status: "ready", env: ["TOKEN"], network: false });
    expect((await exec(app, made.id, "echo $TOKEN")).stdout).toBe("s3cr3t-value\n");
    expect(JSON.stringify(app.ctx.db.$client.query("SELECT * FROM sessions").all())).not.toContain("s3cr3t-value");
    expect(app.log.join("")).not.toContain("s3cr3t-value");
    const stopped = (await app.call("POST", `/v1/sessions/${made.id}/stop`)).body;
    expect(stopped).toMatchObject({ status: "stopped", exec_count: 1, env: [] });
    expect((await app.call("POST", `/v1/sessions/${made.id}/stop`)).body).toEqual(stopped);
    await removed(app, made.id);
    expect(eventsOf(app, made.id)).toEqual(["session.created", "session.ready", "session.stopped"]);
    expect(violations(app.dir)).toEqual([]);
  });

  test("is made once for one Idempotency-Key", async () => {
    const app = open();
    const call = () => app.call("POST", "/v1/sessions", {}, { headers: { "idempotency-key": "k" } });
    const [first, second] = [await call(), await call()];
    expect(second.body.id).toBe(first.body.id);
    expect((await app.call("GET", "/v1/sessions")).body.data.length).toBe(1);
  });

  test("is listed by status, and is invisible to other workspaces", async () => {
    const app = open();
    const mine = await newSession(app);
    const theirs = await newSession(app, {}, app.keyB);
    await app.call("POST", `/v1/sessions/${mine.id}/stop`);
    const ids = async (query: string) =>
      (await app.call("GET", `/v1/sessions${query}`)).body.data.map(({ id }: { id: string }) => id);
    expect(await ids("")).toEqual([mine.id]);
    expect(await ids("?status=ready")).toEqual([]);
    expect((await app.call("GET", "/v1/sessions?status=odd")).status).toBe(422);
    for (const [method, path] of [
      ["GET", ""],
      ["POST", "/stop"],
      ["GET", "/files"],
      ["GET", "/files/content?path=/workspace/a"],
      ["DELETE", "/files/content?path=/workspace/a"],
    ] as const)
      expect((await app.call(method, `/v1/sessions/${theirs.id}${path}`)).status).toBe(404);
  });

  test.each([
    [{ timeout_seconds: 90_000 }, "/timeout_seconds", "lifetime_seconds"],
    [{ network: true }, "/network", "allow_network"],
    [{ env: { "A=B": "x" } }, "/env/A=B", "a name such as"],
    [{ env: { A: "x\0" } }, "/env/A", "NUL"],
    [{ volumes: [{ name: "v", mount_path: "/usr/x" }] }, "/volumes/0/mount_path", "/usr"],
    [{ volumes: [{ name: "v", mount_path: "data" }] }, "/volumes/0/mount_path", "absolute"],
    [{ volumes: [{ name: "v", mount_path: "/a/../etc" }] }, "/volumes/0/mount_path", ".."],
    [{ volumes: [{ name: "v", mount_path: "/workspace" }] }, "/volumes/0/mount_path", "below it"],
    [{ volumes: [{ name: "v", mount_path: "/data", read_only: false }] }, "/volumes/0/mount_path", "/workspace"],
    [
      {
        volumes: [
          { name: "v", mount_path: "/data/x" },
          { name: "v", mount_path: "/data" },
        ],
      },
      "/volumes/0/mount_path",
      "another volume",
    ],
  ])("is refused with %j: the error names the field and the fix", async (body, param, words) => {
    const app = open();
    await app.call("POST", "/v1/volumes", { name: "v" });
    const { status, body: answer } = await app.call("POST", "/v1/sessions", body);
    expect({ status, param: answer.error.param }).toEqual({ status: 422, param });
    expect(answer.error.message).toContain(words);
  });

  test("is refused at the limit of the workspace, until another session has ended", async () => {
    const app = open({ flags: { "sessions.max_per_workspace": 1 } });
    const first = await newSession(app);
    expect((await app.call("POST", "/v1/sessions", {})).body.error.code).toBe("quota_exceeded");
    await newSession(app, {}, app.keyB);
    await app.call("POST", `/v1/sessions/${first.id}/stop`);
    await newSession(app);
  });

  test("that is switched off answers sessions_disabled on every operation", async () => {
    const app = open();
    const { id } = await newSession(app);
    const off = open({ dir: app.dir, flags: { "sessions.enabled": false } });
    for (const [method, path, json] of [
      ["POST", "", {}],
      ["GET", "", undefined],
      ["GET", `/${id}`, undefined],
      ["POST", `/${id}/stop`, undefined],
      ["POST", `/${id}/exec`, { command: "true" }],
      ["GET", `/${id}/files`, undefined],
    ] as const) {
      const { status, body } = await off.call(method, `/v1/sessions${path}`, json, { key: app.keyA });
      expect({ status, code: body.error.code }).toEqual({ status: 400, code: "sessions_disabled" });
      expect(body.error.message).toContain("sessions.enabled");
    }
  });
});

describe("the end of a session", () => {
  const expired = async (app: TestApp, id: string) => {
    await reconcile(app.ctx);
    return (await get(app, id)).status === "expired";
  };

  test("comes after its idle time without use; a call or a command restarts the idle time", async () => {
    const clock = fakeClock();
    const app = open({ clock });
    const { id } = await newSession(app, { idle_timeout_seconds: 60 });
    for (const use of [
      () => exec(app, id, "true"),
      () => app.call("GET", `/v1/sessions/${id}/files`),
      () => put(app, id, "/workspace/a", "a"),
    ]) {
      clock.advance(50_000);
      await use();
      expect(await expired(app, id)).toBe(false);
    }
    clock.advance(59_000);
    expect(await expired(app, id)).toBe(false);
    clock.advance(1_000);
    expect(await expired(app, id)).toBe(true);
    expect((await app.call("GET", `/v1/sessions/${id}/files`)).body.error.code).toBe("session_not_ready");
    await removed(app, id);
    expect(eventsOf(app, id).at(-1)).toBe("session.expired");
  });

  test("does not come for idleness while a command runs, but comes at the end of its lifetime and ends the command", async () => {
    const clock = fakeClock();
    const app = open({ clock });
    const { id } = await newSession(app, { idle_timeout_seconds: 10, timeout_seconds: 100 });
    const running = exec(app, id, "echo begun > begun; sleep 60");
    await until("it to run", () => existsSync(join(dirOf(app, id), "root/workspace/begun")));
    clock.advance(50_000);
    expect(await expired(app, id)).toBe(false);
    clock.advance(50_000);
    expect(await expired(app, id)).toBe(true);
    expect((await running).status).toBe("cancelled");
    await removed(app, id);
  });

  test("by a stop answers its commands as cancelled, and waits for them", async () => {
    const app = open();
    const { id } = await newSession(app);
    const running = [exec(app, id, "echo begun > begun; sleep 60"), exec(app, id, "sleep 60")];
    await until("it to run", () => existsSync(join(dirOf(app, id), "root/workspace/begun")));
    const stopped = await app.call("POST", `/v1/sessions/${id}/stop`);
    expect(stopped.body.status).toBe("stopped");
    expect((await Promise.all(running)).map(({ status }) => status)).toEqual(["cancelled", "cancelled"]);
    const late = await app.call("POST", `/v1/sessions/${id}/exec`, { command: "true" });
    expect({ status: late.status, code: late.body.error.code }).toEqual({ status: 409, code: "session_not_ready" });
  });

  test("of a workspace that is deleted is the end of its sessions", async () => {
    const app = open();
    const { id } = await newSession(app);
    await app.call("DELETE", `/v1/workspaces/${app.workspaceA}`, undefined, { key: app.adminKey });
    await purge(app.ctx);
    await removed(app, id);
    expect(sessions.find(app.ctx, id)?.status).toBe("stopped");
  });
});

describe("after a restart", () => {
  test("a ready session has its files, and commands run in it", async () => {
    const app = open();
    const { id } = await newSession(app, { env: { A: "kept" } });
    await exec(app, id, "echo hello > a.txt");
    const again = open({ dir: app.dir });
    await reconcile(again.ctx);
    const { body } = await again.call(
      "POST",
      `/v1/sessions/${id}/exec`,
      { command: "cat a.txt; echo $A" },
      { key: app.keyA },
    );
    expect(body.stdout).toBe("hello\nkept\n");
  });

  test("a starting session starts, a stopping session stops, and files without a session are removed", async () => {
    const app = open();
    const create = () =>
      write(app.ctx.db, (tx) => sessions.create(app.ctx, tx, app.workspaceA, CreateSession.parse({})));
    const [half, stopping] = [create(), create()];
    mkdirSync(join(dirOf(app, half.id), "root/leftover"), { recursive: true });
    sessions.begin(app.ctx, stopping.id, "stop");
    mkdirSync(join(app.dir, "sessions/ses_nobodys/root"), { recursive: true });
    await durable(app.ctx.db);
    const again = open({ dir: app.dir });
    await until("all to be put in order", async () => {
      await reconcile(again.ctx);
      const [a, b] = [half, stopping].map(({ id }) => sessions.find(again.ctx, id));
      return a?.status === "ready" && b?.status === "stopped" && b.removedAt !== null;
    });
    expect(readdirSync(join(app.dir, "sessions"))).toEqual([half.id]);
    expect(readdirSync(join(dirOf(app, half.id), "root"))).toEqual(["workspace"]);
    expect(violations(app.dir)).toEqual([]);
  });
});

test("files of a session that a program made unreadable, deep and odd are removed with it", async () => {
  const app = open();
  const { id } = await newSession(app);
  await exec(
    app,
    id,
    "mkdir -p a/b/c && touch a/b/c/x && chmod 0 a/b && mkfifo f && ln -s / l && touch \"$(printf '\\377')\"",
  );
  expect((await app.call("DELETE", contentPath(id, "/workspace/a", "&recursive=true"))).status).toBe(200);
  await exec(app, id, "mkdir -p a/b/c && touch a/b/c/x && chmod 0 a/b");
  await app.call("POST", `/v1/sessions/${id}/stop`);
  await removed(app, id);
});

test("a session whose files are missing says so, and can be stopped", async () => {
  const app = open();
  const { id } = await newSession(app);
  rmSync(dirOf(app, id), { recursive: true });
  for (const path of ["files", "files/content?path=/workspace/a"])
    expect(await app.call("GET", `/v1/sessions/${id}/${path}`)).toMatchObject({
      status: 409,
      body: { error: { code: "session_not_ready" } },
    });
  expect(await app.call("POST", `/v1/sessions/${id}/exec`, { command: "true" })).toMatchObject({ status: 409 });
  expect(await app.call("POST", `/v1/sessions/${id}/stop`)).toMatchObject({ status: 200, body: { status: "stopped" } });
});
