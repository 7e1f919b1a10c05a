import { afterEach, expect, test } from "bun:test";
import { atEveryFailpoint, fakeClock, manyApps, type Options, type TestApp } from "../../../../test/harness.ts";
import { describeWith, nativeMinio } from "../../../../test/servers/servers.ts";
import { freshPrefix } from "../../../../test/storage/buckets.ts";
import { durable } from "../../../platform/db/db.ts";
import { looseKeys } from "../loose_keys/table.ts";
import { uploads } from "../uploads/table.ts";
import { sweep } from "./sweep.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);
const sha256 = (text: string | Uint8Array) => new Bun.CryptoHasher("sha256").update(text).digest("hex");
const MIB = 2 ** 20;

describeWith("volumes in a bucket, against MinIO", nativeMinio, (server) => {
  async function volume(options: Options = {}) {
    const settings = await freshPrefix(server);
    const flags = Object.fromEntries(Object.entries(settings).map(([name, value]) => [`storage.${name}`, value]));
    const app = open({ ...options, flags: { ...flags, ...options.flags } });
    await app.call("POST", "/v1/volumes", { name: "lab" });
    return { app, flags };
  }
  const ask = async (app: TestApp, json: object) =>
    (await app.call("POST", "/v1/volumes/lab/upload-url", { path: "a.bin", ...json })).body;
  const send = (url: string, body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string>) =>
    fetch(url, { method: "PUT", body, headers });
  const read = (app: TestApp) => app.call("GET", "/v1/volumes/lab/files/a.bin");
  const stored = async (app: TestApp) => {
    await sweep(app.ctx);
    return (await app.ctx.storage.list("")).items.map((item) => item.sha256);
  };

  test("a file goes past this server, and is there when it is completed", async () => {
    const { app } = await volume();
    const made = await ask(app, { size_bytes: 5, sha256: sha256("hello"), content_type: "text/plain" });
    expect(made.url).toStartWith(server.url);
    expect(made.complete_path).toBe(`/v1/volumes/lab/uploads/${made.id}/complete`);
    expect(await app.call("POST", made.complete_path)).toMatchObject({
      status: 400,
      body: { error: { code: "upload_incomplete" } },
    });
    expect((await send(made.url, "hello", made.headers)).status).toBe(200);
    expect((await read(app)).status).toBe(404);
    const done = await app.call("POST", made.complete_path);
    expect(done).toMatchObject({
      status: 201,
      body: { size_bytes: 5, sha256: sha256("hello"), content_type: "text/plain" },
    });
    expect((await read(app)).body).toBe("hello");
    expect(await app.call("POST", made.complete_path)).toMatchObject({ status: 200, body: done.body });
    expect(await stored(app)).toEqual([sha256("hello")]);
  });

  test("an address that is used again changes nothing", async () => {
    const { app } = await volume();
    const made = await ask(app, {});
    await send(made.url, "first", made.headers);
    await app.call("POST", made.complete_path);
    await send(made.url, "second", made.headers);
    await sweep(app.ctx);
    expect((await read(app)).body).toBe("first");
  });

  test("other content than was announced is refused by the bucket or at the end", async () => {
    const { app } = await volume({ flags: { "volumes.max_file_bytes": 8 } });
    const made = await ask(app, { sha256: sha256("hello") });
    expect((await send(made.url, "hallo", made.headers)).status).toBeGreaterThanOrEqual(400);
    expect((await app.call("POST", made.complete_path)).status).toBe(400);
    const sized = await ask(app, { path: "b", size_bytes: 3 });
    expect((await send(sized.url, "hello", sized.headers)).status).toBeGreaterThanOrEqual(400);
    const large = await ask(app, { path: "c" });
    await send(large.url, "more than eight bytes", large.headers);
    expect(await app.call("POST", large.complete_path)).toMatchObject({ status: 413 });
    expect(await stored(app)).toEqual([]);
  });

  test("parts go past this server too", async () => {
    const { app } = await volume();
    const [first, last] = [new Uint8Array(5 * MIB).fill(1), new Uint8Array(100).fill(2)];
    const made = await ask(app, { parts: 2, size_bytes: 5 * MIB + 100 });
    expect((await send(made.parts[1].url, last, {})).status).toBe(200);
    expect(await app.call("POST", made.complete_path)).toMatchObject({ status: 400 });
    expect((await send(made.parts[0].url, first, {})).status).toBe(200);
    const done = await app.call("POST", made.complete_path);
    expect(done).toMatchObject({ status: 201, body: { sha256: sha256(Buffer.concat([first, last])) } });
  }, 120_000);

  test("a file that nobody completed is found by the loop; one that never came is given up", async () => {
    const clock = fakeClock(Date.now());
    const { app } = await volume({ clock });
    const [sent, never] = [await ask(app, {}), await ask(app, { path: "b" })];
    await send(sent.url, "hello", sent.headers);
    await sweep(app.ctx);
    expect((await read(app)).body).toBe("hello");
    const late = await ask(app, { path: "c", expires_in_seconds: 3600 });
    clock.advance(1_800_000);
    await send(late.url, "late", late.headers);
    clock.advance(3_600_000 + 3_600_000);
    await sweep(app.ctx);
    const status = (id: string) =>
      app.ctx.db
        .select()
        .from(uploads)
        .all()
        .find((row) => row.id === id)?.status;
    expect([status(sent.id), status(never.id), status(late.id)]).toEqual(["used", "expired", "used"]);
  });

  test("a file that the loop has found, or is just looking at, can be completed", async () => {
    const { app } = await volume();
    const [one, two] = [await ask(app, {}), await ask(app, { path: "b" })];
    await send(one.url, "hello", one.headers);
    await send(two.url, "there", two.headers);
    const looking = sweep(app.ctx);
    expect(await app.call("POST", one.complete_path)).toMatchObject({ status: 200, body: { sha256: sha256("hello") } });
    await looking;
    expect(await app.call("POST", two.complete_path)).toMatchObject({ status: 200, body: { sha256: sha256("there") } });
  });

  test("a download goes past this server, under the file's name", async () => {
    const { app } = await volume();
    await app.call("PUT", "/v1/volumes/lab/files/a.bin", undefined, { raw: "hello" });
    const { body } = await app.call("POST", "/v1/volumes/lab/download-url", { path: "a.bin" });
    expect(body.url).toStartWith(server.url);
    const got = await fetch(body.url, { headers: { range: "bytes=1-3" } });
    expect([got.status, await got.text()]).toEqual([206, "ell"]);
    expect(got.headers.get("content-disposition")).toContain("a.bin");
  });

  test("wherever it crashes, what was sent becomes the file, and nothing else is left", async () => {
    const crashes = await atEveryFailpoint(async (attempt) => {
      const { app, flags } = await volume();
      const made = await ask(app, {});
      await send(made.url, "hello", made.headers);
      await attempt(async () => {
        const { status } = await app.call("POST", made.complete_path);
        if (status >= 500) throw new Error("crashed");
      });
      await durable(app.ctx.db).catch(() => {});
      const after = open({ dir: app.dir, flags });
      await sweep(after.ctx);
      expect((await read(after)).body).toBe("hello");
      expect(await stored(after)).toEqual([sha256("hello")]);
      expect(after.ctx.db.select().from(looseKeys).all()).toEqual([]);
    });
    expect(crashes).toBeGreaterThan(5);
  }, 120_000);
});
