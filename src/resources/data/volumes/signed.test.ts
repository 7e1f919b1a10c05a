// tier: all (many seconds)
import { afterEach, describe, expect, test } from "bun:test";
import { atEveryFailpoint, fakeClock, type TestApp, until } from "../../../../test/harness.ts";
import {
  ask,
  closeAll,
  fetchFile,
  local,
  open,
  refused,
  send,
  sha256,
  slowBody,
  stored,
  volume,
} from "../../../../test/signed_kit.ts";
import { durable } from "../../../platform/db/db.ts";
import { uploads } from "../uploads/table.ts";
import { sweep } from "./sweep.ts";

afterEach(closeAll);

describe("an address for an upload", () => {
  test("takes the file that was announced, once", async () => {
    const app = await volume();
    const made = await app.call("POST", "/v1/volumes/lab/upload-url", {
      path: "dir/a.bin",
      size_bytes: 5,
      sha256: sha256("hello").toUpperCase(),
      content_type: "text/plain",
    });
    expect(made).toMatchObject({
      status: 201,
      body: {
        object: "upload_url",
        volume: "lab",
        path: "dir/a.bin",
        method: "PUT",
        headers: { "content-type": "text/plain" },
        max_bytes: 5,
        complete_path: null,
        parts: null,
      },
    });
    expect((await fetchFile(app, "dir/a.bin")).status).toBe(404);
    expect(await send(app, made.body.url, "hello")).toMatchObject({
      status: 201,
      body: { path: "dir/a.bin", size_bytes: 5, content_type: "text/plain" },
    });
    expect((await fetchFile(app, "dir/a.bin")).body).toBe("hello");
    expect(await send(app, made.body.url, "hello")).toMatchObject(refused("upload_used", 409));
    expect(await stored(app)).toEqual([sha256("hello")]);
  });

  test("of two senders at the same time one is taken", async () => {
    const app = await volume();
    const { url } = await ask(app, {});
    const answers = await Promise.all(["one", "two", "three"].map((text) => send(app, url, text)));
    expect(answers.map((answer) => answer.status).sort()).toEqual([201, 409, 409]);
    const winner = answers.find((answer) => answer.status === 201);
    expect(sha256((await fetchFile(app)).body)).toBe(winner?.body.sha256);
    expect(await stored(app)).toHaveLength(1);
  });

  test("whoever comes while another sends is turned away, and the other is not disturbed", async () => {
    const app = await volume();
    const { url } = await ask(app, {});
    const slow = slowBody();
    const first = send(app, url, slow.body);
    await until("the claim", () => app.ctx.db.select().from(uploads).get()?.status === "receiving");
    await sweep(app.ctx);
    expect(await send(app, url, "second")).toMatchObject(refused("upload_used", 409));
    slow.finish();
    expect((await first).status).toBe(201);
    expect((await fetchFile(app)).body).toBe("x");
  });

  test.each([
    ["another hash", { sha256: sha256("hello") }, "hallo", "sha256_mismatch", "sha256"],
    ["too few bytes", { size_bytes: 5 }, "hell", "schema", "content-length"],
    ["too many bytes", { size_bytes: 5 }, "hello!", "schema", "content-length"],
  ])("%s is refused, and the right file is taken afterwards", async (_name, announced, wrong, code, param) => {
    const app = await volume();
    const { url } = await ask(app, announced);
    expect(await send(app, url, wrong)).toMatchObject({ status: 422, body: { error: { code, param } } });
    const headers = { "content-length": String(wrong.length) };
    expect((await send(app, url, wrong, headers)).status).toBe(422);
    expect(await stored(app)).toEqual([]);
    expect((await send(app, url, "hello")).status).toBe(201);
    expect((await fetchFile(app)).body).toBe("hello");
  });

  test("a sender that breaks off leaves nothing, and may try again", async () => {
    const app = await volume();
    const { url } = await ask(app, {});
    const broken = new ReadableStream({
      pull(controller) {
        controller.enqueue(new TextEncoder().encode("hel"));
        controller.error(new Error("the line was cut"));
      },
    });
    expect(await send(app, url, broken)).toMatchObject(refused("upload_incomplete", 400));
    expect(await stored(app)).toEqual([]);
    expect((await send(app, url, "hello")).status).toBe(201);
  });

  test("expires", async () => {
    const clock = fakeClock();
    const app = await volume({ clock });
    const { url, id } = await ask(app, { expires_in_seconds: 60 });
    clock.advance(61_000);
    expect(await send(app, url, "x")).toMatchObject(refused("invalid_signature", 403));
    await sweep(app.ctx);
    const rows = () => app.ctx.db.select().from(uploads).all();
    expect(rows()).toMatchObject([{ id, status: "expired" }]);
    clock.advance(8 * 86_400_000);
    await sweep(app.ctx);
    expect(rows()).toEqual([]);
  });

  test.each([
    ["no query", (url: string) => url.split("?")[0] as string],
    ["a later expiry", (url: string) => url.replace(/expires=(\d)/, "expires=2$1")],
    [
      "another signature",
      (url: string) => url.replace(/signature=(.)/, (_, first) => `signature=${first === "A" ? "B" : "A"}`),
    ],
    ["another key's name", (url: string) => url.replace("key=key_", "key=key_0")],
    ["another upload", (url: string) => url.replace("/upl_", "/upl_0")],
    ["another volume", (url: string) => url.replace("/vol_", "/vol_0")],
    ["the volume's name", (url: string) => url.replace(/vol_\w+/, "lab")],
    ["a part of it", (url: string) => url.replace("?", "/parts/1?")],
  ])("with %s is refused", async (_name, change) => {
    const app = await volume();
    const { url } = await ask(app, {});
    expect(change(url)).not.toBe(url);
    expect(await send(app, change(url), "x")).toMatchObject(refused("invalid_signature", 403));
    expect((await send(app, url, "x")).status).toBe(201);
  });

  test("dies with the key that asked for it", async () => {
    const app = await volume();
    const { body: key } = await app.call("POST", "/v1/api_keys", { name: "ci" });
    const requested = await app.call("POST", "/v1/volumes/lab/upload-url", { path: "a" }, { key: key.key });
    await app.call("DELETE", `/v1/api_keys/${key.id}`);
    expect(await send(app, requested.body.url, "x")).toMatchObject(refused("invalid_signature", 403));
  });

  test("dies with its workspace's suspension and its volume", async () => {
    const app = await volume();
    const { url } = await ask(app, {});
    await app.call("POST", `/v1/workspaces/${app.workspaceA}/suspend`, undefined, { key: app.adminKey });
    expect(await send(app, url, "x")).toMatchObject(refused("invalid_signature", 403));
    await app.call("POST", `/v1/workspaces/${app.workspaceA}/resume`, undefined, { key: app.adminKey });
    await app.call("DELETE", "/v1/volumes/lab");
    expect(await send(app, url, "x")).toMatchObject(refused("invalid_signature", 403));
    expect(await stored(app)).toEqual([]);
  });

  test("can be called off, also while the file comes", async () => {
    const app = await volume();
    const { url, id } = await ask(app, {});
    const slow = slowBody();
    const sending = send(app, url, slow.body);
    await until("the claim", () => app.ctx.db.select().from(uploads).get()?.status === "receiving");
    expect((await app.call("DELETE", `/v1/volumes/lab/uploads/${id}`)).body.deleted).toBe(true);
    slow.finish();
    expect(await sending).toMatchObject(refused("upload_used", 409));
    expect((await fetchFile(app)).status).toBe(404);
    expect(await stored(app)).toEqual([]);
  });

  test.each([
    [{ path: "../x" }, "/path"],
    [{ path: "/x" }, "/path"],
    [{ path: "" }, "/path"],
    [{ path: "a\u0000b" }, "/path"],
    [{ path: "a", size_bytes: -1 }, "/size_bytes"],
    [{ path: "a", sha256: "abc" }, "/sha256"],
    [{ path: "a", content_type: "text/plain\r\nx: y" }, "/content_type"],
    [{ path: "a", expires_in_seconds: 604_801 }, "/expires_in_seconds"],
    [{ path: "a", parts: 10_001 }, "/parts"],
  ])("is not made of %p", async (json, param) => {
    const app = await volume();
    const answer = await app.call("POST", "/v1/volumes/lab/upload-url", json);
    expect(answer).toMatchObject({ status: 422, body: { error: { code: "schema", param } } });
  });

  test("begins with http.public_url", async () => {
    const app = await volume({ flags: { "http.public_url": "https://verk.lab/api" } });
    const { url } = await ask(app, {});
    expect(url).toStartWith("https://verk.lab/api/v1/volumes/vol_");
    expect((await send(app, url.replace("https://verk.lab/api", ""), "x")).status).toBe(201);
  });
});

describe("an address for a download", () => {
  const address = async (app: TestApp, path: string, more: object = {}) =>
    (await app.call("POST", "/v1/volumes/lab/download-url", { path, ...more })).body;

  test("gives the file to whoever has it, with ranges", async () => {
    const app = await volume();
    await app.call("PUT", "/v1/volumes/lab/files/dir/%C3%A4%20b%25.txt", undefined, { raw: "0123456789" });
    const made = await address(app, "dir/ä b%.txt");
    expect(made).toMatchObject({ object: "download_url", method: "GET", size_bytes: 10, sha256: sha256("0123456789") });
    const got = (headers = {}, method = "GET") => app.call(method, local(made.url), undefined, { key: null, headers });
    expect((await got()).body).toBe("0123456789");
    expect((await got({ range: "bytes=2-3" })).body).toBe("23");
    expect((await got({}, "HEAD")).headers.get("content-length")).toBe("10");
    expect((await got({}, "PUT")).status).toBe(405);
  });

  test("is of one file, for its time", async () => {
    const clock = fakeClock();
    const app = await volume({ clock });
    for (const path of ["a", "b"]) await app.call("PUT", `/v1/volumes/lab/files/${path}`, undefined, { raw: path });
    const { url, expires_at } = await address(app, "a", { expires_in_seconds: 10 });
    expect(Date.parse(expires_at)).toBe(clock.now() + 10_000);
    const get = (at: string) => app.call("GET", local(at), undefined, { key: null });
    expect(await get(url.replace("/signed/a?", "/signed/b?"))).toMatchObject(refused("invalid_signature", 403));
    expect((await get(url)).body).toBe("a");
    clock.advance(10_000);
    expect(await get(url)).toMatchObject(refused("invalid_signature", 403));
  });

  test("of a file that is not there is not made", async () => {
    const app = await volume();
    const answer = await app.call("POST", "/v1/volumes/lab/download-url", { path: "none" });
    expect(answer).toMatchObject(refused("resource_not_found", 404));
  });
});

test("no log line holds a signature, however the request ends", async () => {
  const app = await volume();
  const { url } = await ask(app, { sha256: sha256("x") });
  const download = async () => (await app.call("POST", "/v1/volumes/lab/download-url", { path: "a.bin" })).body.url;
  await send(app, url, "wrong");
  const broken = new ReadableStream({ pull: (controller) => controller.error(new Error("cut")) });
  await send(app, url, broken);
  await send(app, url, "x");
  await send(app, url, "x");
  await app.call("GET", local(await download()), undefined, { key: null });
  const log = app.log.join("\n");
  expect(log).toContain("/uploads/upl_");
  expect(log).not.toContain("signature=");
  expect(log).not.toContain(new URLSearchParams(url.split("?")[1]).get("signature") as string);
});

test("wherever it crashes, a file is there whole or not at all, and nothing else is", async () => {
  const crashes = await atEveryFailpoint(async (attempt) => {
    const app = await volume();
    await app.call("PUT", "/v1/volumes/lab/files/a.bin", undefined, { raw: "old" });
    await sweep(app.ctx);
    const { url } = await ask(app, { sha256: sha256("new") });
    await attempt(async () => {
      const { status } = await send(app, url, "new");
      if (status >= 500) throw new Error("crashed");
      await sweep(app.ctx);
    });
    await durable(app.ctx.db).catch(() => {}); // what the crashed one still had open
    const after = open({ dir: app.dir }); // as a restart would
    const { body } = await fetchFile(after);
    expect(["old", "new"]).toContain(body);
    expect(await stored(after)).toEqual([sha256(body)]);
    const again = await send(after, url, "new");
    expect(again.status).toBe(body === "new" ? 409 : 200);
    expect(await stored(after)).toEqual([sha256("new")]);
    expect((await after.call("GET", "/v1/volumes/lab")).body).toMatchObject({ file_count: 1, total_bytes: 3 });
  });
  expect(crashes).toBeGreaterThan(10);
}, 120_000);
