// tier: all (large model files)
import { afterEach, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { atEveryFailpoint, fakeClock, manyApps, type TestApp, tempDir } from "../../../../../test/harness.ts";
import { makeModel } from "../../../../../test/models.ts";
import { durable } from "../../../../platform/db/db.ts";
import { purge } from "../../../../purge.ts";
import { uploads } from "../../../data/uploads/table.ts";
import { scan } from "../files/folder.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

let bytes: Uint8Array<ArrayBuffer>;
let hash: string;
beforeAll(() => {
  const dir = tempDir();
  bytes = new Uint8Array(readFileSync(makeModel(dir, { arch: "llama", type: "F16" })));
  hash = new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
  rmSync(dir, { recursive: true });
});

const create = async (app: TestApp, name = "mine") =>
  (await app.call("POST", "/v1/models", { name, base_model: "some/base", metadata: { a: "b" } })).body;
const ask = (app: TestApp, id: string, file: object = {}) =>
  app.call("POST", `/v1/models/${id}/presigned-upload`, { files: [{ path: "model.gguf", ...file }] });
const send = (app: TestApp, url: string, raw: BodyInit) =>
  app.call("PUT", url.replace("http://localhost", ""), undefined, { key: null, raw });
const complete = (app: TestApp, id: string, json?: object) => app.call("POST", `/v1/models/${id}/complete`, json);
const files = (app: TestApp) => {
  const dir = join(app.dir, "models/.uploads");
  return existsSync(dir) ? readdirSync(dir) : [];
};
/** A model that has its file. */
async function ready(app: TestApp, name = "mine") {
  const { id } = await create(app, name);
  const { body } = await ask(app, id, { sha256: hash });
  await send(app, body.files[0].url, bytes);
  return (await complete(app, id)).body;
}

test("a model is made, its file is sent to a signed address, and it is ready", async () => {
  const app = open();
  const made = await create(app);
  expect(made).toMatchObject({
    object: "model",
    name: "mine",
    source: "upload",
    status: "pending",
    base_model: "some/base",
  });
  const { status, body } = await ask(app, made.id, { size_bytes: bytes.length, sha256: hash });
  expect([status, body.object, body.model_id, body.status]).toEqual([201, "presigned_upload", made.id, "open"]);
  expect(body.id).toMatch(/^ups_/);
  expect(body.files).toMatchObject([{ path: "model.gguf", method: "PUT", headers: {}, exists: false }]);
  const sent = await send(app, body.files[0].url, bytes);
  expect(sent).toMatchObject({ status: 200, body: { object: "upload", size_bytes: bytes.length, sha256: hash } });
  const done = await complete(app, made.id, { upload_id: body.id });
  expect(done).toMatchObject({
    status: 200,
    body: { status: "ready", architecture: "llama", size_bytes: bytes.length, sha256: hash, type: "model" },
  });
  await scan(app.ctx);
  expect(files(app)).toHaveLength(1);
  expect((await app.call("GET", "/v1/models/mine")).body).toMatchObject({ status: "ready", owned_by: app.workspaceA });
});

describe("a file that is no model", () => {
  test("fails the model with its reason, and leaves nothing; another file mends it", async () => {
    const app = open();
    const { id } = await create(app);
    const first = (await ask(app, id)).body;
    await send(app, first.files[0].url, "GGUF and then nothing of the kind");
    const refused = await complete(app, id);
    expect(refused).toMatchObject({ status: 422, body: { error: { code: "schema", param: "/files/0/path" } } });
    expect(refused.body.error.message).toStartWith("model.gguf cannot be used: ");
    const { body } = await app.call("GET", `/v1/models/${id}`);
    expect(body).toMatchObject({ status: "failed", error: refused.body.error.message });
    expect(files(app)).toEqual([]);
    expect((await complete(app, id)).body).toEqual(refused.body);
    const second = (await ask(app, id)).body;
    await send(app, second.files[0].url, bytes);
    expect((await complete(app, id)).body.status).toBe("ready");
  });

  test.each([
    [[{ path: "model.bin" }], "/files/0/path", "GGUF"],
    [[{ path: "model.safetensors" }], "/files", "needs config.json"],
    [[{ path: "model.safetensors" }, { path: "config.json" }], "/files", "tokenizer.json or tokenizer.model"],
    [[{ path: "config.json" }, { path: "tokenizer.json" }], "/files", "a safetensors file"],
    [[{ path: "config.json" }, { path: "modeling.py" }], "/files/1/path", "modeling.py is not needed"],
    [[{ path: "config.json" }, { path: "../model.safetensors" }], "/files/1/path", "is not needed"],
    [[{ path: "config.json" }, { path: "config.json" }], "/files/1/path", "listed twice"],
    [[{ path: "m-00001-of-00002.gguf" }], "/files/0/path", "list m-00002-of-00002.gguf too"],
    [[{ path: "m-00001-of-00002.gguf" }, { path: "n.gguf" }], "/files/1/path", "n.gguf is not a part of m"],
    [[{ path: "a.gguf" }, { path: "b.gguf" }], "/files/1/path", "one file"],
    [[], "/files", ""],
    [[{ path: "a.gguf", sha256: "x" }], "/files/0/sha256", ""],
    [[{ path: "a.gguf", size_bytes: 0 }], "/files/0/size_bytes", ""],
  ])("is refused before it is sent: %p", async (wanted, param, word) => {
    const app = open();
    const { id } = await create(app);
    const answer = await app.call("POST", `/v1/models/${id}/presigned-upload`, { files: wanted });
    expect(answer).toMatchObject({ status: 422, body: { error: { code: "schema", param } } });
    expect(answer.body.error.message).toContain(word);
  });
});

test("the address takes one file, the announced one, and no other address does", async () => {
  const app = open();
  const { id } = await create(app);
  const { url } = (await ask(app, id, { size_bytes: bytes.length, sha256: hash })).body.files[0];
  expect(await send(app, url, "short")).toMatchObject({ status: 422 });
  const other = bytes.slice();
  other[100]! ^= 1;
  expect(await send(app, url, other)).toMatchObject({ status: 422, body: { error: { code: "sha256_mismatch" } } });
  expect(files(app)).toEqual([]);
  expect(await complete(app, id)).toMatchObject({ status: 400, body: { error: { code: "upload_incomplete" } } });
  const forged = url.replace(/signature=(.)/, (_: string, first: string) => `signature=${first === "A" ? "B" : "A"}`);
  expect(await send(app, forged, bytes)).toMatchObject({ status: 403, body: { error: { code: "invalid_signature" } } });
  const answers = await Promise.all([send(app, url, bytes), send(app, url, bytes)]);
  expect(answers.map((answer) => answer.status).sort()).toEqual([200, 409]);
  expect((await complete(app, id)).body.status).toBe("ready");
  expect(await ask(app, id)).toMatchObject({ status: 400, body: { error: { code: "unsupported_state" } } });
});

test("asking again calls the first address off", async () => {
  const app = open();
  const { id } = await create(app);
  const first = (await ask(app, id)).body.files[0].url;
  await ask(app, id);
  expect(await send(app, first, bytes)).toMatchObject({ status: 409, body: { error: { code: "upload_used" } } });
});

describe("content that the workspace has", () => {
  test("as a model need not be sent, and is not copied", async () => {
    const app = open();
    await ready(app);
    const { id } = await create(app, "again");
    const { body } = await ask(app, id, { sha256: hash });
    expect(body).toMatchObject({ status: "received", files: [{ exists: true }] });
    expect((await complete(app, id)).body).toMatchObject({ status: "ready", sha256: hash });
    const inodes = files(app).map((name) => statSync(join(app.dir, "models/.uploads", name)).ino);
    expect(inodes).toEqual([inodes[0]!, inodes[0]!]);
    await app.call("DELETE", "/v1/models/mine");
    await scan(app.ctx);
    expect(files(app)).toHaveLength(1);
    expect((await app.call("GET", "/v1/models/again")).body.status).toBe("ready");
  });

  test("as a file of a volume need not be sent", async () => {
    const app = open();
    await app.call("POST", "/v1/volumes", { name: "lab" });
    await app.call("PUT", "/v1/volumes/lab/files/m", undefined, { raw: bytes });
    const { id } = await create(app);
    expect((await ask(app, id, { sha256: hash })).body.files[0].exists).toBe(true);
    expect((await complete(app, id)).body.status).toBe("ready");
  });

  test("is not told to another workspace", async () => {
    const app = open();
    await ready(app);
    const { body } = await app.call("POST", "/v1/models", { name: "theirs" }, { key: app.keyB });
    const presigned = await app.call(
      "POST",
      `/v1/models/${body.id}/presigned-upload`,
      { files: [{ path: "m.gguf", sha256: hash }] },
      { key: app.keyB },
    );
    expect(presigned.body.files[0].exists).toBe(false);
  });
});

test("names: a taken one is refused, also one of the installation", async () => {
  const app = open();
  await scan(app.ctx);
  await create(app);
  for (const name of ["mine", "verk-tiny"])
    expect(await app.call("POST", "/v1/models", { name })).toMatchObject({
      status: 400,
      body: { error: { code: "name_taken", param: "/name" } },
    });
  expect((await app.call("POST", "/v1/models", { name: `mdl_${"0".repeat(26)}` })).status).toBe(422);
});

test("a deleted model takes its files with it, and its address dies", async () => {
  const app = open();
  const { id } = await create(app);
  const { url } = (await ask(app, id)).body.files[0];
  await send(app, url, bytes);
  const later = await create(app, "later");
  const second = (await ask(app, later.id)).body.files[0].url;
  for (const each of [id, later.id]) await app.call("DELETE", `/v1/models/${each}`);
  await scan(app.ctx);
  expect(files(app)).toEqual([]);
  expect(await send(app, second, bytes)).toMatchObject({ status: 409 });
});

test("what was sent and never completed goes after its time", async () => {
  const clock = fakeClock(Date.now());
  const app = open({ clock });
  const { id } = await create(app);
  await send(app, (await ask(app, id)).body.files[0].url, bytes);
  await scan(app.ctx);
  expect(files(app)).toHaveLength(1);
  clock.advance(8 * 86_400_000);
  const { sweep } = await import("../../../data/uploads/service.ts");
  await sweep(app.ctx);
  expect(app.ctx.db.select().from(uploads).all()).toEqual([]);
  await scan(app.ctx);
  expect(files(app)).toEqual([]);
});

test("a deleted workspace's models go", async () => {
  const app = open();
  await ready(app);
  await app.call("DELETE", `/v1/workspaces/${app.workspaceA}`, undefined, { key: app.adminKey });
  await purge(app.ctx);
  await scan(app.ctx);
  expect(files(app)).toEqual([]);
});

test("wherever it crashes, the model becomes ready when the client goes on, and one file is left", async () => {
  const crashes = await atEveryFailpoint(async (attempt) => {
    const app = open();
    const { id } = await create(app);
    const { url } = (await ask(app, id, { sha256: hash })).body.files[0];
    await attempt(async () => {
      for (const answer of [await send(app, url, bytes), await complete(app, id)])
        if (answer.status >= 500) throw new Error("crashed");
    });
    await durable(app.ctx.db).catch(() => {});
    const after = open({ dir: app.dir });
    await scan(after.ctx);
    const { status } = (await after.call("GET", `/v1/models/${id}`)).body;
    if (status !== "ready") {
      expect([200, 409]).toContain((await send(after, url, bytes)).status);
      expect((await complete(after, id)).body.status).toBe("ready");
    }
    await scan(after.ctx);
    expect(files(after)).toHaveLength(1);
  });
  expect(crashes).toBeGreaterThan(8);
}, 120_000);
