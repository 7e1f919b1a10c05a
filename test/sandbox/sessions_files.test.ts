// tier: all (many jails)
import { afterEach, describe, expect, test } from "bun:test";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { write } from "../../src/platform/db/db.ts";
import { CreateSession } from "../../src/resources/machines/sessions/schema.ts";
import * as sessions from "../../src/resources/machines/sessions/service.ts";
import { manyApps, type TestApp } from "../harness.ts";
import { contentPath, exec, newSession, put } from "./sessions_kit.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const listing = (app: TestApp, id: string, query = "") => app.call("GET", `/v1/sessions/${id}/files${query}`);
const refused = ({ status, body }: { status: number; body: { error: { code: string } } }) =>
  `${status} ${body.error.code}`;

describe("the listing of files", () => {
  test("shows a directory sorted by name, for all other parameters", async () => {
    const app = open();
    const { id } = await newSession(app);
    await exec(app, id, "mkdir src; echo hello > a.txt; ln -s a.txt link; mkfifo pipe; echo deep > src/main.py");
    const expected = {
      object: "session.file_listing",
      path: "/workspace",
      type: "directory",
      size: null,
      entries: [
        { name: "a.txt", type: "file" },
        { name: "link", type: "symlink" },
        { name: "pipe", type: "other" },
        { name: "src", type: "directory" },
      ],
      truncated: false,
    };
    for (const query of ["", "?path=/workspace", "?list=1", "?list=0&recursive=yes&path=%2Fworkspace%2F&x=1&x=2"])
      expect(await listing(app, id, query)).toMatchObject({ status: 200, body: expected });
    expect((await listing(app, id, "?path=/workspace/src")).body.entries).toEqual([{ name: "main.py", type: "file" }]);
  });

  test("resolves links: the path is the target of the link", async () => {
    const app = open();
    const { id } = await newSession(app);
    await exec(app, id, "mkdir -p a/b; echo 12345 > a/b/f; ln -s /workspace/a abs; ln -s ../a/b/f a/rel");
    expect((await listing(app, id, "?path=/workspace/abs/b")).body).toMatchObject({
      path: "/workspace/a/b",
      type: "directory",
    });
    expect((await listing(app, id, "?path=/workspace/abs/rel")).body).toEqual({
      object: "session.file_listing",
      path: "/workspace/a/b/f",
      type: "file",
      size: 6,
      entries: [],
      truncated: false,
    });
  });

  test("ends at 1000 entries and says so", async () => {
    const app = open();
    const { id } = await newSession(app);
    await exec(app, id, "mkdir n m; seq -f 'n/%05g' 1 1000 | xargs touch; seq -f 'm/%05g' 1 1001 | xargs touch");
    const [n, m] = [await listing(app, id, "?path=/workspace/n"), await listing(app, id, "?path=/workspace/m")];
    expect([n.body.entries.length, n.body.truncated]).toEqual([1000, false]);
    expect([m.body.entries.length, m.body.truncated, m.body.entries.at(-1).name]).toEqual([1000, true, "01000"]);
  });

  test("is 400 if the path or a link leads out of /workspace, 404 for a missing path", async () => {
    const app = open();
    const { id } = await newSession(app);
    await exec(
      app,
      id,
      "ln -s /etc/passwd abs; ln -s ../../../../etc rel; ln -s / top; ln -s /workspace/none none; ln -s self self",
    );
    for (const path of [
      "/",
      "/etc",
      "/etc/passwd",
      "workspace",
      "",
      "/workspace/..",
      "/workspace/../etc/passwd",
      "/workspacex",
    ])
      expect(refused(await listing(app, id, `?path=${encodeURIComponent(path)}`))).toBe("400 path_outside_workspace");
    for (const path of ["abs", "rel", "rel/passwd", "top", "top/etc"])
      expect(refused(await listing(app, id, `?path=/workspace/${path}`))).toBe("400 path_outside_workspace");
    for (const path of ["nothing", "none", "self", "nothing/deeper"])
      expect(refused(await listing(app, id, `?path=/workspace/${path}`))).toBe("404 resource_not_found");
    expect(refused(await listing(app, id, "?path=%2Fworkspace%2Fa%00b"))).toBe("400 path_outside_workspace");
    expect((await listing(app, id, "?path=/workspace/abs")).body.error.param).toBe("path");
  });

  test("is 404 for a session that is not the caller's, 409 for one that is not ready", async () => {
    const app = open();
    const { id } = await newSession(app);
    expect(refused(await app.call("GET", `/v1/sessions/${id}/files`, undefined, { key: app.keyB }))).toBe(
      "404 resource_not_found",
    );
    expect(refused(await listing(app, "ses_00000000000000000000000000"))).toBe("404 resource_not_found");
    const creating = write(app.ctx.db, (tx) => sessions.create(app.ctx, tx, app.workspaceA, CreateSession.parse({})));
    expect(refused(await listing(app, creating.id))).toBe("409 session_not_ready");
    await app.call("POST", `/v1/sessions/${id}/stop`);
    for (const path of ["", "?path=/etc/passwd"])
      expect(refused(await listing(app, id, path))).toBe("409 session_not_ready");
  });

  test("may be read with a key that only reads; running a command may not", async () => {
    const app = open();
    const { id } = await newSession(app);
    const { key } = app.keyOf("alpha", ["read"]);
    expect((await app.call("GET", `/v1/sessions/${id}/files`, undefined, { key })).status).toBe(200);
    expect(refused(await app.call("POST", `/v1/sessions/${id}/exec`, { command: "true" }, { key }))).toBe(
      "403 missing_scope",
    );
    const other = app.keyOf("alpha", ["inference"]).key;
    expect(refused(await app.call("GET", `/v1/sessions/${id}/files`, undefined, { key: other }))).toBe(
      "403 missing_scope",
    );
  });
});

describe("the content of a file", () => {
  test("comes whole, in ranges, or as 304", async () => {
    const app = open();
    const { id } = await newSession(app);
    await exec(app, id, "seq 1 100000 > big");
    const whole = await app.call("GET", contentPath(id, "/workspace/big"));
    expect(whole.body.length).toBe(588_895);
    expect(whole.headers.get("content-disposition")).toContain('filename="big"');
    const get = (headers: Record<string, string>) =>
      app.call("GET", contentPath(id, "/workspace/big"), undefined, { headers });
    const part = await get({ range: "bytes=2-5" });
    expect([part.status, part.body, part.headers.get("content-range")]).toEqual([206, "2\n3\n", "bytes 2-5/588895"]);
    const tag = whole.headers.get("etag") as string;
    expect((await get({ "if-none-match": tag })).status).toBe(304);
    await exec(app, id, "echo x >> big");
    expect((await get({ "if-none-match": tag })).status).toBe(200);
    expect(refused(await get({ range: "bytes=9999999-" }))).toBe("416 range_not_satisfiable");
    expect((await app.call("HEAD", contentPath(id, "/workspace/big"))).headers.get("content-length")).toBe("588897");
  });

  test("is refused if the path is no file", async () => {
    const app = open();
    const { id } = await newSession(app);
    await exec(app, id, "mkdir d; mkfifo f; ln -s /etc/passwd l");
    await exec(app, id, `perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => "s", Listen => 1) or die'`);
    for (const [path, code] of [
      ["/workspace/s", "400 invalid_request"],
      ["/workspace/d", "400 invalid_request"],
      ["/workspace/f", "400 invalid_request"],
      ["/workspace/l", "400 path_outside_workspace"],
      ["/workspace/none", "404 resource_not_found"],
    ] as const)
      expect(refused(await app.call("GET", contentPath(id, path)))).toBe(code);
    expect(refused(await app.call("GET", `/v1/sessions/${id}/files/content`))).toBe("422 schema");
  });

  test("leaves no descriptor open, for every kind of request", async () => {
    const app = open();
    const { id } = await newSession(app);
    await put(app, id, "/workspace/a", "x".repeat(1_000_000));
    const count = () => readdirSync("/proc/self/fd").length;
    const ask = async () => {
      await app.call("GET", contentPath(id, "/workspace/a"));
      await app.call("HEAD", contentPath(id, "/workspace/a"));
      await app.call("GET", contentPath(id, "/workspace/a"), undefined, { headers: { range: "bytes=99999999-" } });
      await app.call("GET", contentPath(id, "/workspace/none/a"));
      await listing(app, id);
      await listing(app, id, "?path=/etc");
      await put(app, id, "/workspace/b/c", "x");
      await app.call("DELETE", contentPath(id, "/workspace/b", "&recursive=true"));
      await exec(app, id, "true");
    };
    await ask();
    const before = count();
    for (let i = 0; i < 10; i++) await ask();
    expect(count()).toBeLessThanOrEqual(before + 2);
  }, 120_000);
});

describe("writing a file", () => {
  test("makes directories, replaces the file, and makes it available to commands", async () => {
    const app = open();
    const { id } = await newSession(app);
    const first = await put(app, id, "/workspace/a/b.txt", "one");
    expect(first).toMatchObject({ status: 201, body: { object: "session.file", path: "/workspace/a/b.txt", size: 3 } });
    expect((await put(app, id, "/workspace/a/b.txt", "two")).status).toBe(200);
    expect(
      (await exec(app, id, "cat a/b.txt; echo three >> a/b.txt; touch a/c; rm a/c; stat -c %U a a/b.txt")).stdout,
    ).toBe("twouser\nuser\n");
    expect((await app.call("GET", contentPath(id, "/workspace/a/b.txt"))).body).toBe("twothree\n");
  });

  test("is refused at a depth that the guard of a command would not allow", async () => {
    const app = open();
    const { id } = await newSession(app);
    expect(refused(await put(app, id, `/workspace${"/d".repeat(300)}`, "x"))).toBe("400 invalid_request");
    expect((await put(app, id, `/workspace${"/d".repeat(190)}`, "x")).status).toBe(201);
    expect((await exec(app, id, "sleep 0.3; echo alive")).stdout).toBe("alive\n");
  });

  test("never follows a link that a command left there", async () => {
    const app = open();
    const { id } = await newSession(app);
    writeFileSync(join(app.dir, "victim"), "untouched");
    await exec(app, id, `ln -s ${app.dir}/victim leaf; ln -s ${app.dir} dir; ln -s / top`);
    expect((await put(app, id, "/workspace/leaf", "new")).status).toBe(200);
    for (const path of ["/workspace/dir/victim", "/workspace/top/tmp/x", "/workspace/dir/new/x"])
      expect(refused(await put(app, id, path, "x"))).toBe("400 path_outside_workspace");
    expect(await Bun.file(join(app.dir, "victim")).text()).toBe("untouched");
  });

  test("accepts what the quota leaves, also from several callers at once and without a length", async () => {
    const app = open({ flags: { "sessions.disk_mib": 2 } });
    const { id } = await newSession(app);
    const bytes = (n: number) => new Uint8Array(n).fill(97);
    expect(refused(await put(app, id, "/workspace/a", bytes(3_000_000)))).toBe("422 quota_exceeded");
    const stream = () =>
      new ReadableStream({
        async start(controller) {
          for (let i = 0; i < 15; i++) {
            controller.enqueue(bytes(100_000));
            await Bun.sleep(1);
          }
          controller.close();
        },
      });
    const answers = await Promise.all([1, 2, 3].map((i) => put(app, id, `/workspace/s${i}`, stream())));
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 201).length).toBeLessThanOrEqual(1);
    expect(statuses.filter((status) => status !== 201 && status !== 422)).toEqual([]);
    await app.call("DELETE", contentPath(id, "/workspace/s1"));
    for (const name of ["s1", "s2", "s3"]) await app.call("DELETE", contentPath(id, `/workspace/${name}`));
    for (let i = 0; i < 5; i++)
      expect((await put(app, id, "/workspace/same", bytes(900_000))).status).toBeLessThan(300);
    expect(readdirSync(join(app.dir, "sessions", id, "incoming"))).toEqual([]);
  });

  test("is refused if the path cannot hold a file", async () => {
    const app = open();
    const { id } = await newSession(app);
    await exec(app, id, "mkdir d; touch f");
    for (const [path, code] of [
      ["/workspace/d", "400 invalid_request"],
      ["/workspace", "400 invalid_request"],
      ["/workspace/x/", "400 invalid_request"],
      ["/etc/x", "400 path_outside_workspace"],
      ["/workspace/../x", "400 path_outside_workspace"],
    ] as const)
      expect(refused(await put(app, id, path, "x"))).toBe(code);
    expect((await put(app, id, "/workspace/f/x", "x")).status).toBeGreaterThanOrEqual(400);
  });
});
