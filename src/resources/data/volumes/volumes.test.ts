import { afterEach, describe, expect, test } from "bun:test";
import { fakeClock, manyApps, type TestApp } from "../../../../test/harness.ts";
import { events } from "../../../events/table.ts";
import { looseKeys } from "../loose_keys/table.ts";
import { sweep } from "./sweep.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const sha256 = (text: string) => new Bun.CryptoHasher("sha256").update(text).digest("hex");
const make = (app: TestApp, name = "lab") => app.call("POST", "/v1/volumes", { name });
const put = (app: TestApp, path: string, text: string, headers: Record<string, string> = {}) =>
  app.call("PUT", `/v1/volumes/lab/files/${path}`, undefined, { raw: text, headers });
const get = (app: TestApp, path: string, headers: Record<string, string> = {}) =>
  app.call("GET", `/v1/volumes/lab/files/${path}`, undefined, { headers });
const typesOf = (app: TestApp) =>
  app.ctx.db
    .select()
    .from(events)
    .all()
    .map((event) => event.type)
    .filter((type) => type.startsWith("volume"));
/** The content of the storage after the loop has run. */
const stored = async (app: TestApp) => {
  await sweep(app.ctx);
  expect(app.ctx.db.select().from(looseKeys).all()).toEqual([]);
  return (await app.ctx.storage.list("")).items.map((item) => item.sha256);
};

describe("a volume", () => {
  test("is created, shown by name or id, listed and deleted, with its events", async () => {
    const app = open();
    const made = await app.call("POST", "/v1/volumes", { name: "lab", metadata: { team: "rl" } });
    expect(made).toMatchObject({
      status: 201,
      body: { object: "volume", name: "lab", total_bytes: 0, file_count: 0, metadata: { team: "rl" } },
    });
    expect((await app.call("GET", "/v1/volumes/lab")).body).toEqual(made.body);
    expect((await app.call("GET", `/v1/volumes/${made.body.id}`)).body).toEqual(made.body);
    expect((await app.call("GET", "/v1/volumes")).body.data).toEqual([made.body]);
    expect((await app.call("DELETE", "/v1/volumes/lab")).body).toEqual({
      id: made.body.id,
      object: "volume",
      deleted: true,
    });
    expect((await app.call("GET", "/v1/volumes/lab")).status).toBe(404);
    expect(typesOf(app)).toEqual(["volume.created", "volume.deleted"]);
  });

  test.each([
    ["-a", "/name"],
    ["A", "/name"],
    ["a_b", "/name"],
    ["", "/name"],
    ["x".repeat(64), "/name"],
  ])("cannot be called %p", async (name, param) => {
    const app = open();
    expect(await make(app, name)).toMatchObject({ status: 422, body: { error: { code: "schema", param } } });
  });

  test("has its name alone, until it is deleted", async () => {
    const app = open();
    await make(app);
    expect(await make(app)).toMatchObject({ status: 400, body: { error: { code: "name_taken", param: "/name" } } });
    expect((await app.call("POST", "/v1/volumes", { name: "lab" }, { key: app.keyB })).status).toBe(201);
    await put(app, "a.txt", "old");
    await app.call("DELETE", "/v1/volumes/lab");
    expect((await make(app)).status).toBe(201);
    expect((await get(app, "a.txt")).status).toBe(404);
    expect(await stored(app)).toEqual([]);
    expect((await app.call("GET", "/v1/volumes/lab")).body.file_count).toBe(0);
  });
});

describe("a file", () => {
  test("is what was put, and its volume counts it", async () => {
    const app = open();
    await make(app);
    const made = await put(app, "dir/ä b.txt", "hello", { "content-type": "text/plain; charset=utf-8" });
    expect(made).toMatchObject({
      status: 201,
      body: {
        object: "volume_file",
        path: "dir/ä b.txt",
        size_bytes: 5,
        sha256: sha256("hello"),
        content_type: "text/plain; charset=utf-8",
      },
    });
    const got = await get(app, "dir/%C3%A4%20b.txt");
    expect([got.status, got.body]).toEqual([200, "hello"]);
    expect(await app.call("GET", "/v1/volumes/lab")).toMatchObject({ body: { total_bytes: 5, file_count: 1 } });
    expect((await put(app, "dir/ä b.txt", "hi")).status).toBe(200);
    expect(await app.call("GET", "/v1/volumes/lab")).toMatchObject({ body: { total_bytes: 2, file_count: 1 } });
    expect((await get(app, "dir%2F%C3%A4%20b.txt")).body).toBe("hi");
    expect(typesOf(app)).toEqual(["volume.created", "volume_file.written", "volume_file.written"]);
    expect(await stored(app)).toEqual([sha256("hi")]);
  });

  test("may be empty", async () => {
    const app = open();
    await make(app);
    expect((await put(app, "nothing", "")).body.size_bytes).toBe(0);
    expect(await get(app, "nothing")).toMatchObject({ status: 200, body: "" });
  });

  test("with the same content as another outlives it", async () => {
    const app = open();
    await make(app);
    for (const path of ["a", "b"]) await put(app, path, "same");
    expect((await app.call("DELETE", "/v1/volumes/lab/files/a")).body).toMatchObject({
      object: "volume_file",
      volume: "lab",
      path: "a",
      deleted: true,
    });
    expect(await stored(app)).toEqual([sha256("same")]);
    await app.ctx.storage.sweep(0);
    expect((await get(app, "b")).body).toBe("same");
    expect((await get(app, "a")).status).toBe(404);
    expect((await app.call("DELETE", "/v1/volumes/lab/files/a")).status).toBe(404);
    expect((await app.call("GET", "/v1/volumes/lab")).body).toMatchObject({ file_count: 1, total_bytes: 4 });
  });

  test.each(["a//b", "%2Fetc/passwd", "a%00b", "a%0Ab", `${"x".repeat(241)}`, `${"long/".repeat(210)}x`])(
    "cannot lie at %p",
    async (path) => {
      const app = open();
      await make(app);
      const answer = await put(app, path, "x");
      expect([404, 422]).toContain(answer.status);
      if (answer.status === 422) expect(answer.body.error).toMatchObject({ code: "schema", param: "path" });
      expect(await stored(app)).toEqual([]);
      expect((await get(app, path)).status).toBe(404);
    },
  );

  test("is not a folder at the same time", async () => {
    const app = open();
    await make(app);
    await put(app, "a/b", "x");
    for (const path of ["a", "a/b/c", "a/b/c/d"])
      expect(await put(app, path, "y")).toMatchObject({ status: 422, body: { error: { param: "path" } } });
    for (const path of ["a.txt", "a0", "a/c", "ab"]) expect((await put(app, path, "y")).status).toBe(201);
  });

  test("larger than the setting allows is refused, whether it says its length or not", async () => {
    const app = open({ flags: { "volumes.max_file_bytes": 4 } });
    await make(app);
    const said = await put(app, "a", "12345", { "content-length": "5" });
    expect(said).toMatchObject({ status: 413, body: { error: { code: "payload_too_large" } } });
    expect((await put(app, "a", "12345")).status).toBe(413);
    expect((await put(app, "a", "1234")).status).toBe(201);
  });
});

test("files are listed by path, below a prefix, page by page", async () => {
  const app = open();
  await make(app);
  for (const path of ["b/2", "a", "b/10", "c", "b/1", "b.txt"]) await put(app, path, path);
  const list = async (query: string) => {
    const { body } = await app.call("GET", `/v1/volumes/lab/files?${query}`);
    return [body.data.map((file: { path: string }) => file.path).join(" "), body.has_more];
  };
  expect(await list("")).toEqual(["a b.txt b/1 b/10 b/2 c", false]);
  expect(await list("prefix=b/")).toEqual(["b/1 b/10 b/2", false]);
  expect(await list("prefix=b/&limit=2")).toEqual(["b/1 b/10", true]);
  expect(await list("prefix=b/&limit=2&after=b/10")).toEqual(["b/2", false]);
  expect(await list("after=b/15")).toEqual(["b/2 c", false]);
  expect(await app.call("GET", "/v1/volumes/lab/files?after=/x")).toMatchObject({
    status: 400,
    body: { error: { code: "invalid_cursor", param: "after" } },
  });
  expect((await app.call("GET", "/v1/volumes/lab/files?limit=101")).status).toBe(422);
});

test("P15 volume files: the id of the last item is the `after` of the next page, also once that file is deleted", async () => {
  const app = open();
  const { body: volume } = await make(app);
  for (const path of ["a b", "b/1", "b/2", "c"]) await put(app, path, path);
  const page = async (after: string) =>
    (await app.call("GET", `/v1/volumes/lab/files?limit=2&after=${encodeURIComponent(after)}`)).body;
  const { data: first } = (await app.call("GET", "/v1/volumes/lab/files?limit=2")).body;
  expect(first.map((file: { id: string }) => file.id)).toEqual([`${volume.id}/a b`, `${volume.id}/b/1`]);
  const removed = await app.call("DELETE", "/v1/volumes/lab/files/b/1");
  expect(removed.body).toMatchObject({ id: `${volume.id}/b/1`, deleted: true });
  for (const after of [first[1].id, "b/1"])
    expect((await page(after)).data.map((file: { path: string }) => file.path)).toEqual(["b/2", "c"]);
});

describe("fetching", () => {
  test.each([
    ["bytes=0-3", 206, "0123", "bytes 0-3/10"],
    ["bytes=7-", 206, "789", "bytes 7-9/10"],
    ["bytes=-2", 206, "89", "bytes 8-9/10"],
    ["bytes=0-0,5-6", 200, "0123456789", null],
    ["bytes=x", 200, "0123456789", null],
  ])("%s", async (range, status, body, contentRange) => {
    const app = open();
    await make(app);
    await put(app, "digits", "0123456789");
    const got = await get(app, "digits", { range });
    expect([got.status, got.body, got.headers.get("content-range")]).toEqual([status, body, contentRange]);
    expect(got.headers.get("accept-ranges")).toBe("bytes");
  });

  test("a range behind the end is a 416 that tells the size", async () => {
    const app = open();
    await make(app);
    await put(app, "digits", "0123456789");
    const got = await get(app, "digits", { range: "bytes=10-" });
    expect(got).toMatchObject({ status: 416, body: { error: { code: "range_not_satisfiable" } } });
    expect(got.headers.get("content-range")).toBe("bytes */10");
  });

  test("a range is of the version that was meant, and what is known is not sent again", async () => {
    const app = open();
    await make(app);
    await put(app, "digits", "0123456789");
    const etag = (await get(app, "digits")).headers.get("etag") ?? "";
    expect(etag).toBe(`"${sha256("0123456789")}"`);
    const range = "bytes=0-1";
    expect((await get(app, "digits", { range, "if-range": etag })).status).toBe(206);
    expect((await get(app, "digits", { range, "if-range": '"other"' })).status).toBe(200);
    expect(await get(app, "digits", { "if-none-match": `W/"x", ${etag}` })).toMatchObject({ status: 304, body: "" });
  });

  test("HEAD answers like GET without the bytes", async () => {
    const app = open();
    await make(app);
    await put(app, "page.html", "<script>alert(1)</script>", { "content-type": "text/html" });
    const head = await app.call("HEAD", "/v1/volumes/lab/files/page.html");
    expect(head).toMatchObject({ status: 200, body: "" });
    expect(head.headers.get("content-length")).toBe("25");
    for (const name of ["etag", "content-type", "content-disposition", "last-modified"])
      expect(head.headers.get(name)).toBe((await get(app, "page.html")).headers.get(name));
  });

  test("a page cannot act as this server", async () => {
    const app = open();
    await make(app);
    await put(app, "dir/Ü b.html", "<script>alert(1)</script>", { "content-type": "text/html" });
    const { headers } = await get(app, "dir/%C3%9C%20b.html");
    expect(headers.get("content-disposition")).toBe(
      `attachment; filename="__b.html"; filename*=UTF-8''%C3%9C%20b.html`,
    );
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("content-security-policy")).toBe("sandbox; default-src 'none'");
  });
});

test("a file that the storage has lost is not called absent", async () => {
  const app = open();
  await make(app);
  await put(app, "a.bin", "hello");
  for (const { key } of (await app.ctx.storage.list("")).items) await app.ctx.storage.delete(key);
  const answer = await get(app, "a.bin");
  expect(answer).toMatchObject({ status: 503, body: { error: { code: "storage_unavailable" } } });
  expect(answer.body.error.message).toContain("storage.kind");
});

test("a deleted workspace loses its volumes and their bytes, its neighbours do not", async () => {
  const app = open({ clock: fakeClock() });
  for (const key of [app.keyA, app.keyB]) {
    await app.call("POST", "/v1/volumes", { name: "lab" }, { key });
    await app.call("PUT", "/v1/volumes/lab/files/a", undefined, { key, raw: key });
  }
  await app.call("DELETE", `/v1/workspaces/${app.workspaceA}`, undefined, { key: app.adminKey });
  const { purge } = await import("../../../purge.ts");
  await purge(app.ctx);
  expect(await stored(app)).toEqual([sha256(app.keyB)]);
  expect((await app.call("GET", "/v1/volumes/lab/files/a", undefined, { key: app.keyB })).body).toBe(app.keyB);
});
