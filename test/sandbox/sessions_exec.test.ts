import { afterEach, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fakeClock, manyApps, type TestApp, until } from "../harness.ts";
import { exec, newSession, processesWith, streamed } from "./sessions_kit.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const mark = () => `mark-${crypto.randomUUID()}`;
const begun = (app: TestApp, id: string, name: string) =>
  until("the command to run", () => existsSync(join(app.dir, "sessions", id, "root/workspace", name)));

describe("a command", () => {
  test("gets its arguments, directory, variables and input, and reports how it ended", async () => {
    const app = open();
    const { id } = await newSession(app, { env: { A: "session", B: "session" } });
    await exec(app, id, "mkdir 'a b'");
    const told = await exec(app, id, {
      command: 'echo "$A $B $0"; pwd; cat; echo oops >&2; exit 3',
      cwd: "/workspace/a b",
      env: { B: "call" },
      stdin: "input",
    });
    expect(told).toMatchObject({
      object: "session.exec",
      session_id: id,
      status: "failed",
      exit_code: 3,
      signal: null,
      stdout: "session call /bin/sh\n/workspace/a b\ninput",
      stderr: "oops\n",
      truncated: false,
      error: null,
      warning: null,
    });
    expect((await exec(app, id, { command: ["echo", "$A", "two  words"] })).stdout).toBe("$A two  words\n");
    expect(await exec(app, id, { command: ["no-such-program"] })).toMatchObject({ status: "failed", exit_code: 127 });
    expect(await exec(app, id, "kill -TERM $$")).toMatchObject({ status: "failed", exit_code: null, signal: 15 });
    expect(await exec(app, id, { command: "true", cwd: "/nowhere" })).toMatchObject({
      status: "failed",
      exit_code: null,
    });
    expect((await app.call("GET", `/v1/sessions/${id}`)).body.exec_count).toBe(6);
  });

  test.each([
    [{ command: "" }, "/command"],
    [{ command: [] }, "/command"],
    [{}, "/command"],
    [{ command: "a\0b" }, "/command"],
    [{ command: "true", cwd: "here" }, "/cwd"],
    [{ command: "true", cwd: "/workspace/none" }, "/cwd"],
    [{ command: "true", timeout_seconds: 999_999 }, "/timeout_seconds"],
    [{ command: "true", env: { "": "x" } }, "/env/"],
  ])("%j is refused at %s", async (body, param) => {
    const app = open();
    const { id } = await newSession(app);
    const answer = await app.call("POST", `/v1/sessions/${id}/exec`, body);
    expect({ status: answer.status, param: answer.body.error.param }).toEqual({ status: 422, param });
  });

  test("that takes too long is ended, with everything it started", async () => {
    const app = open();
    const { id } = await newSession(app);
    const name = mark();
    const told = await exec(app, id, { command: `sh -c 'sleep 300; : ${name}' & sleep 300`, timeout_seconds: 1 });
    expect(told).toMatchObject({ status: "timeout", exit_code: null });
    expect(await processesWith(name)).toEqual([]);
  });

  test("that prints too much is kept up to the limit, in whole characters only", async () => {
    const app = open({ flags: { "sessions.output_bytes": 1024 } });
    const { id } = await newSession(app);
    const told = await exec(app, id, "yes äöü | head -c 5000000; echo quiet >&2");
    expect(told.truncated).toBe(true);
    expect(told.stderr).toBe("quiet\n");
    expect(told.stdout.startsWith("äöü\näöü\n")).toBe(true);
    expect(told.stdout).not.toContain("�");
    expect(Buffer.byteLength(told.stdout)).toBeLessThanOrEqual(1024);
    expect((await exec(app, id, "printf 'a\\377b'")).stdout).toBe("a�b");
  });

  test("runs beside others in the same session", async () => {
    const app = open();
    const { id } = await newSession(app);
    const waiting = exec(app, id, "until [ -e go ]; do sleep 0.05; done; echo went");
    await exec(app, id, "touch go");
    expect((await waiting).stdout).toBe("went\n");
  });

  test("is ended when its caller leaves", async () => {
    const app = open();
    const { id } = await newSession(app);
    const name = mark();
    const caller = new AbortController();
    const request = new Request(`http://localhost/v1/sessions/${id}/exec`, {
      method: "POST",
      headers: { authorization: `Bearer ${app.keyA}`, "content-type": "application/json" },
      body: JSON.stringify({ command: `touch begun; sleep 300; : ${name}` }),
      signal: caller.signal,
    });
    const answering = app.handle(request);
    await begun(app, id, "begun");
    caller.abort();
    expect(await ((await answering) as Response).json()).toMatchObject({ status: "cancelled" });
    expect(await processesWith(name)).toEqual([]);
  });

  test("is answered as cancelled when the server stops", async () => {
    const app = open();
    const { id } = await newSession(app);
    const running = exec(app, id, "touch begun; sleep 300");
    await begun(app, id, "begun");
    await app.close();
    expect((await running).status).toBe("cancelled");
    await open({ dir: app.dir }); // closed once more by the harness
  });
});

describe("the queue of the commands", () => {
  test("is bounded: a command that waits too long gets no_capacity with Retry-After", async () => {
    const clock = fakeClock();
    const app = open({ clock, flags: { "sessions.execs": 1 } });
    const { id } = await newSession(app);
    const running = exec(app, id, "touch begun; until [ -e go ]; do sleep 0.05; done");
    await begun(app, id, "begun");
    const waiting = app.call("POST", `/v1/sessions/${id}/exec`, { command: "true" });
    const late = until("the wait to end", async () => {
      clock.advance(1_000);
      return await Promise.race([waiting, undefined]);
    });
    const answer = await late;
    expect({ status: answer.status, code: answer.body.error.code }).toEqual({ status: 503, code: "no_capacity" });
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    await app.call("PUT", `/v1/sessions/${id}/files/content?path=/workspace/go`, undefined, { raw: "" });
    expect((await running).status).toBe("completed");
    expect((await exec(app, id, "true")).status).toBe("completed");
  });

  test("keeps a slot for another workspace, for any number of waiting commands of the first", async () => {
    const app = open({ flags: { "sessions.execs": 2 } });
    const mine = await newSession(app);
    const theirs = await newSession(app, {}, app.keyB);
    const hog = [1, 2, 3].map((i) => exec(app, mine.id, `touch begun${i}; until [ -e go ]; do sleep 0.05; done`));
    await begun(app, mine.id, "begun1");
    const answer = await app.call("POST", `/v1/sessions/${theirs.id}/exec`, { command: "echo in" }, { key: app.keyB });
    expect(answer.body.stdout).toBe("in\n");
    expect(existsSync(join(app.dir, "sessions", mine.id, "root/workspace/begun2"))).toBe(false);
    await app.call("PUT", `/v1/sessions/${mine.id}/files/content?path=/workspace/go`, undefined, { raw: "" });
    expect((await Promise.all(hog)).map(({ status }) => status)).toEqual(["completed", "completed", "completed"]);
  });
});

describe("streamed", () => {
  test("output arrives while it is written, then the end", async () => {
    const app = open();
    const { id } = await newSession(app);
    const { response, events } = await streamed(app, id, {
      command: "printf one; until [ -e go ]; do sleep 0.05; done; echo two >&2; exit 4",
    });
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    expect((await events.next()).value).toMatchObject({ event: "stdout", data: { data: "one" } });
    await exec(app, id, "touch go");
    expect((await events.next()).value).toMatchObject({ event: "stderr", data: { data: "two\n" } });
    const exit = (await events.next()).value;
    expect(exit).toMatchObject({
      event: "exit",
      data: { object: "session.exec", status: "failed", exit_code: 4, stdout: "" },
    });
    expect((await events.next()).done).toBe(true);
  });

  test("a character that arrives in two pieces is sent as one", async () => {
    const app = open();
    const { id } = await newSession(app);
    const { events } = await streamed(app, id, { command: "printf '\\303'; sleep 0.2; printf '\\244x'" });
    const texts: string[] = [];
    for await (const { event, data } of events) if (event === "stdout") texts.push((data as { data: string }).data);
    expect(texts.join("")).toBe("äx");
  });

  test("a client that leaves ends the command", async () => {
    const app = open();
    const { id } = await newSession(app);
    const name = mark();
    const { leave } = await streamed(app, id, { command: `touch begun; sleep 300; : ${name}` });
    await begun(app, id, "begun");
    await leave();
    await until("it to end", async () => (await processesWith(name)).length === 0);
    expect((await exec(app, id, "true")).status).toBe("completed");
  });

  test("a client that does not read holds a bounded amount, and the command continues", async () => {
    const app = open({ flags: { "sessions.output_bytes": 65_536 } });
    const { id } = await newSession(app);
    const { events } = await streamed(app, id, { command: "yes | head -c 50000000; touch over" });
    await begun(app, id, "over");
    let bytes = 0;
    for await (const { event, data } of events) {
      if (event === "stdout") bytes += (data as { data: string }).data.length;
      else expect(data).toMatchObject({ status: "completed", truncated: true });
    }
    expect(bytes).toBe(65_536);
  });

  test("a refusal comes before the stream", async () => {
    const app = open();
    const { id } = await newSession(app);
    const { response } = await streamed(app, id, { command: "true", cwd: "/workspace/none" });
    expect(response.status).toBe(422);
  });
});

describe("the effects of a command stay in the session, which answers afterwards", () => {
  const FLAGS = {
    "sessions.memory_mib": 64,
    "sessions.processes": 16,
    "sessions.disk_mib": 4,
    "sessions.disk_entries": 200,
  };
  test.each([
    ["memory", { command: "perl -e '$x .= \"a\" x 1e6 while 1'", timeout_seconds: 15 }, ["memory_exceeded", "failed"]],
    [
      "forks",
      { command: "f() { f | f & }; f; sleep 1; exit 1", timeout_seconds: 5 },
      ["failed", "timeout", "memory_exceeded"],
    ],
    [
      "disk",
      { command: "for i in 1 2 3 4 5 6 7 8; do head -c 2000000 /dev/zero > f$i; sleep 0.1; done", timeout_seconds: 15 },
      ["disk_exceeded"],
    ],
    [
      "files",
      { command: "mkdir m; i=0; while :; do : > m/$i; i=$((i+1)); done", timeout_seconds: 15 },
      ["disk_exceeded"],
    ],
    ["a daemon", { command: "(setsid sleep 300 >/dev/null 2>&1 &); exit 1", timeout_seconds: 5 }, ["failed"]],
    ["namespaces", { command: "unshare -U true", timeout_seconds: 5 }, ["failed"]],
  ] as const)(
    "%s",
    async (_name, body, statuses) => {
      const app = open({ flags: FLAGS });
      const { id } = await newSession(app);
      const told = await exec(app, id, body);
      expect(statuses as readonly string[]).toContain(told.status);
      expect(await exec(app, id, "echo fine")).toMatchObject({ status: "completed", stdout: "fine\n" });
    },
    120_000,
  );

  test("a full session says so: files can be deleted, and then written again", async () => {
    const app = open({ flags: FLAGS });
    const { id } = await newSession(app);
    const over = await exec(app, id, "head -c 3500000 /dev/zero > a; head -c 3500000 /dev/zero > b; sleep 5");
    expect(over.status).toBe("disk_exceeded");
    const writing = await exec(app, id, "echo more > c");
    expect(writing.warning).toContain("full");
    expect(writing.status).not.toBe("completed");
    const answer = await app.call("PUT", `/v1/sessions/${id}/files/content?path=/workspace/d`, undefined, { raw: "x" });
    expect(answer.body.error.code).toBe("quota_exceeded");
    expect(await exec(app, id, "rm a b")).toMatchObject({ status: "completed" });
    expect(await exec(app, id, "echo more > c && cat c")).toMatchObject({ stdout: "more\n", warning: null });
  }, 120_000);
});
