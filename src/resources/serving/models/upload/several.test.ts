// tier: all (large model files)
/** Models that are uploaded as several files: a Hugging Face folder, and the parts of a split GGUF file. */
import { afterEach, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { atEveryFailpoint, manyApps, type TestApp, tempDir } from "../../../../../test/harness.ts";
import { writeFolder } from "../../../../../test/hugging_face.ts";
import { makeModel } from "../../../../../test/models.ts";
import { splitGguf } from "../../../../../test/split_gguf.ts";
import { durable } from "../../../../platform/db/db.ts";
import { scan } from "../files/folder.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

type Files = Record<string, Uint8Array<ArrayBuffer>>;
const read = (dir: string): Files =>
  Object.fromEntries(readdirSync(dir).map((name) => [name, new Uint8Array(readFileSync(join(dir, name)))]));
function folder(): Files {
  const dir = tempDir();
  writeFolder(dir, { dtype: "BF16", shards: 2 });
  return read(dir);
}
async function parts(count = 3): Promise<Files> {
  const dir = tempDir();
  await splitGguf(makeModel(tempDir(), { arch: "llama", type: "F16" }), { dir, stem: "m", count });
  return read(dir);
}

const create = async (app: TestApp) => (await app.call("POST", "/v1/models", { name: "mine" })).body.id as string;
async function announce(app: TestApp, id: string, files: Files): Promise<{ path: string; url: string }[]> {
  const list = Object.entries(files).map(([path, bytes]) => ({ path, size_bytes: bytes.byteLength }));
  const { status, body } = await app.call("POST", `/v1/models/${id}/presigned-upload`, { files: list });
  expect([status, body.status]).toEqual([201, "open"]);
  return body.files;
}
const send = (app: TestApp, url: string, raw: BodyInit) =>
  app.call("PUT", url.replace("http://localhost", ""), undefined, { key: null, raw });
const complete = (app: TestApp, id: string) => app.call("POST", `/v1/models/${id}/complete`);
const stored = (app: TestApp) =>
  ["models/.uploads", "models/.converting"].flatMap((dir) => {
    const path = join(app.dir, dir);
    return existsSync(path) ? readdirSync(path) : [];
  });

test.each([
  ["a folder", folder, "BF16"],
  ["parts", parts, "F16"],
] as const)("%s becomes one file, and only that stays", async (_, make, quantization) => {
  const app = open();
  const files = await make();
  const id = await create(app);
  const addresses = await announce(app, id, files);
  for (const [i, { path, url }] of addresses.entries()) {
    if (i === 1) {
      const early = await complete(app, id);
      expect(early.body.error).toMatchObject({ code: "upload_incomplete" });
      expect(early.body.error.message).toMatch(/ was not uploaded: send it to its signed address first$/);
    }
    expect((await send(app, url, files[path] as Uint8Array<ArrayBuffer>)).status).toBe(200);
  }
  const { status, body } = await complete(app, id);
  expect([status, body]).toMatchObject([200, { status: "ready", architecture: "llama", quantization, error: null }]);
  expect(stored(app)).toHaveLength(1);
  const [file = ""] = stored(app);
  expect(body.size_bytes).toBe(Bun.file(join(app.dir, "models/.uploads", file)).size);
  await scan(app.ctx);
  expect(stored(app)).toEqual([file]);
  expect((await complete(app, id)).status).toBe(400);
  await app.call("DELETE", `/v1/models/${id}`);
  await scan(app.ctx);
  expect(stored(app)).toEqual([]);
});

test("files that are no model fail it with one sentence and leave nothing; other files repair it", async () => {
  const app = open();
  const files = folder();
  const id = await create(app);
  const bad: Files = { ...files, "config.json": new TextEncoder().encode('{"architectures":["Mamba"]}') };
  for (const { path, url } of await announce(app, id, bad)) await send(app, url, bad[path] as Uint8Array<ArrayBuffer>);
  const refused = await complete(app, id);
  expect(refused.body.error).toMatchObject({
    code: "schema",
    message: expect.stringContaining('The files cannot be used: config.json names "Mamba"'),
  });
  expect((await complete(app, id)).body).toEqual(refused.body);
  expect(stored(app)).toEqual([]);
  expect((await app.call("GET", `/v1/models/${id}`)).body).toMatchObject({ status: "failed", size_bytes: null });
  for (const { path, url } of await announce(app, id, files))
    await send(app, url, files[path] as Uint8Array<ArrayBuffer>);
  expect((await complete(app, id)).body.status).toBe("ready");
});

test("wherever it crashes, the model becomes ready when the client completes it, and one file is left", async () => {
  const files = await parts(2);
  const crashes = await atEveryFailpoint(async (attempt) => {
    const app = open();
    const id = await create(app);
    for (const { path, url } of await announce(app, id, files))
      await send(app, url, files[path] as Uint8Array<ArrayBuffer>);
    await attempt(async () => {
      if ((await complete(app, id)).status >= 500) throw new Error("crashed");
    });
    await durable(app.ctx.db).catch(() => {});
    const after = open({ dir: app.dir });
    await scan(after.ctx);
    if ((await after.call("GET", `/v1/models/${id}`)).body.status !== "ready")
      expect((await complete(after, id)).body.status).toBe("ready");
    await scan(after.ctx);
    expect(stored(after)).toHaveLength(1);
  });
  expect(crashes).toBeGreaterThan(3);
}, 120_000);
