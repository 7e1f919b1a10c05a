import { afterAll, beforeAll, expect, test } from "bun:test";
import { fakeClock, type TestApp, testApp } from "../../../../test/harness.ts";
import { HOUR_MS } from "../../../lib/units.ts";
import { write } from "../../../platform/db/db.ts";
import { usedBytes } from "../../data/storage_usage/service.ts";
import * as uploads from "../../data/uploads/service.ts";
import { sweep } from "../../data/volumes/sweep.ts";
import * as files from "./service.ts";

let app: TestApp;
const clock = fakeClock();
beforeAll(() => {
  app = testApp({ clock, flags: { "quotas.file_bytes": 100 } });
});
afterAll(() => app.close().then(app.remove));

const NEW = { filename: "a.jsonl", purpose: "user_data", bytes: 10, mime_type: "text/plain" };
const create = async (fields: object = {}) =>
  (await app.call("POST", "/v1/uploads", { ...NEW, ...fields })).body as { id: string };
const send = (id: string, content: string, options: { key?: string; headers?: Record<string, string> } = {}) => {
  const raw = new FormData();
  raw.set("data", new File([content], "blob"));
  return app.call("POST", `/v1/uploads/${id}/parts`, undefined, { raw, ...options });
};
const part = async (id: string, content: string) => (await send(id, content)).body.id as string;
const complete = (id: string, body: object) => app.call("POST", `/v1/uploads/${id}/complete`, body);
const cancel = (id: string) => app.call("POST", `/v1/uploads/${id}/cancel`);
const used = () => usedBytes(app.ctx.db, { workspaceId: app.workspaceA, kind: "files" });
const storedKeys = async () => (await app.ctx.storage.list("files/")).items.map(({ key }) => key);
const nothingLeft = async () => {
  await sweep(app.ctx);
  expect([await storedKeys(), used()]).toEqual([[], 0]);
};
const md5 = (text: string) => new Bun.CryptoHasher("md5").update(text).digest("hex");

test("the named parts become one file in the named order, and other parts are removed", async () => {
  const upload = await create({ expires_after: { anchor: "created_at", seconds: 7200 } });
  expect(upload).toMatchObject({ object: "upload", status: "pending", bytes: 10, filename: "a.jsonl", file: null });
  const [second, , first] = [
    await part(upload.id, "world"),
    await part(upload.id, "no"),
    await part(upload.id, "hello"),
  ];
  expect(used()).toBe(12);
  const body = { part_ids: [first, second], md5: md5("helloworld") };
  const completed = await complete(upload.id, body);
  expect(completed).toMatchObject({ status: 200, body: { id: upload.id, status: "completed", file: { bytes: 10 } } });
  const { file } = completed.body;
  expect(file.expires_at - file.created_at).toBe(7200);
  expect((await app.call("GET", `/v1/files/${file.id}`)).body).toEqual(file);
  expect((await app.call("GET", `/v1/files/${file.id}/content`)).body).toBe("helloworld");
  await sweep(app.ctx);
  expect([(await storedKeys()).length, used()]).toEqual([1, 10]);
  expect((await complete(upload.id, body)).body).toEqual(completed.body);
  expect(await send(upload.id, "late")).toMatchObject({ status: 400, body: { error: { param: "id" } } });
  expect((await cancel(upload.id)).status).toBe(400);
  await app.call("DELETE", `/v1/files/${file.id}`);
  expect((await complete(upload.id, body)).body.file).toBeNull();
  await nothingLeft();
});

test("wrong parts, sizes and hashes are refused, and the upload stays open", async () => {
  const { id } = await create();
  const [hello, world] = [await part(id, "hello"), await part(id, "world")];
  expect(await send(id, "x".repeat(11))).toMatchObject({ status: 413, body: { error: { code: "payload_too_large" } } });
  const cases: [object, string, RegExp][] = [
    [{ part_ids: [hello] }, "/part_ids", /5 bytes/],
    [{ part_ids: [hello, hello] }, "/part_ids/1", /twice/],
    [{ part_ids: [hello, "part_other"] }, "/part_ids/1", /no part/],
    [{ part_ids: [hello, world], md5: md5("other") }, "/md5", /content/],
    [{ part_ids: [hello, world], md5: "short" }, "/md5", /hexadecimal/],
  ];
  for (const [body, param, message] of cases)
    expect(await complete(id, body)).toMatchObject({
      status: 400,
      body: { error: { param, message: expect.stringMatching(message) } },
    });
  expect((await complete(id, { part_ids: [world, hello] })).body.status).toBe("completed");
  files.removeAll(app.ctx, app.workspaceA);
  await nothingLeft();
});

test("the quota counts parts, and a repeated request adds one part", async () => {
  expect(await app.call("POST", "/v1/uploads", { ...NEW, bytes: 101 })).toMatchObject({
    status: 400,
    body: { error: { param: "/bytes", message: expect.stringMatching(/quotas\.file_bytes/) } },
  });
  const [one, two] = [await create({ bytes: 90 }), await create({ bytes: 90 })];
  const headers = { "idempotency-key": "once" };
  const first = await send(one.id, "x".repeat(40), { headers });
  expect((await send(one.id, "x".repeat(40), { headers })).body).toEqual(first.body);
  expect(used()).toBe(40);
  const refused = await send(two.id, "x".repeat(61));
  expect(refused).toMatchObject({ status: 400, body: { error: { param: "data" } } });
  expect((await send(one.id, "x", { key: app.keyB })).status).toBe(404);
  expect((await cancel(one.id)).body).toMatchObject({ status: "cancelled", file: null });
  expect((await cancel(one.id)).status).toBe(200);
  expect((await complete(one.id, { part_ids: [first.body.id] })).body.error.message).toMatch(/is cancelled/);
  await nothingLeft();
});

test("an upload that is not complete after an hour is expired, and its parts are removed", async () => {
  const { id } = await create();
  const hello = await part(id, "hellohello");
  clock.advance(HOUR_MS);
  expect((await complete(id, { part_ids: [hello] })).body.error.message).toMatch(/is expired/);
  expect(used()).toBe(10);
  await nothingLeft();
});

test("a deleted workspace loses its open uploads with their parts", async () => {
  const { id } = await create();
  await part(id, "hello");
  files.removeAll(app.ctx, app.workspaceA);
  expect((await send(id, "world")).body.error.message).toMatch(/is cancelled/);
  await nothingLeft();
});

test("an upload that was being completed when the server was killed can be completed", async () => {
  const { id } = await create();
  const hello = await part(id, "hellohello");
  const killed = uploads.claimed(app.ctx, id, () => Promise.withResolvers<never>().promise); // never ends
  killed.catch(() => {});
  expect((await send(id, "late")).status).toBe(409);
  app.ctx.state.uploads.receiving.clear(); // what a new process knows
  expect((await complete(id, { part_ids: [hello] })).body.status).toBe("completed");
  expect(write(app.ctx.db, () => uploads.partsOf(app.ctx.db, id))).toEqual([]);
  files.removeAll(app.ctx, app.workspaceA);
  await nothingLeft();
});
