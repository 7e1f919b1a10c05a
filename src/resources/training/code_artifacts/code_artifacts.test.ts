import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { tarGz, zip } from "../../../../test/archives.ts";
import { atEveryFailpoint, manyApps, type TestApp } from "../../../../test/harness.ts";
import { events } from "../../../events/table.ts";
import { durable } from "../../../platform/db/db.ts";
import { purge } from "../../../purge.ts";
import { sweep } from "../../data/volumes/sweep.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const GOOD = tarGz({ name: "src/main.py", content: "print(1)" }, { name: "README", content: "hi" });
type Form = {
  file?: Uint8Array<ArrayBuffer>;
  filename?: string;
  name?: string;
  metadata?: string;
  key?: string;
  headers?: Record<string, string>;
};
function send(app: TestApp, { file = GOOD, filename = "code.tar.gz", name, metadata, key, headers = {} }: Form = {}) {
  const form = new FormData();
  if (name !== undefined) form.set("name", name);
  if (metadata !== undefined) form.set("metadata", metadata);
  form.set("file", new Blob([file]), filename);
  return app.call("POST", "/v1/code_artifacts", undefined, {
    raw: form,
    headers,
    ...(key === undefined ? {} : { key }),
  });
}
const stored = async (app: TestApp) => {
  await sweep(app.ctx);
  return (await app.ctx.storage.list("")).items.length;
};
const leftovers = (app: TestApp) => (existsSync(join(app.dir, "tmp")) ? readdirSync(join(app.dir, "tmp")) : []);
const typesOf = (app: TestApp) =>
  app.ctx.db
    .select()
    .from(events)
    .all()
    .map((event) => event.type)
    .filter((type) => type.startsWith("code_artifact"));

test("an archive is uploaded, counted, shown, listed, downloaded and deleted", async () => {
  const app = open();
  const made = await send(app, { name: "trainer", metadata: '{"commit":"abc"}' });
  expect(made).toMatchObject({
    status: 201,
    body: {
      object: "code_artifact",
      name: "trainer",
      format: "tar.gz",
      file_count: 2,
      unpacked_bytes: 10,
      size_bytes: GOOD.length,
      sha256: new Bun.CryptoHasher("sha256").update(GOOD).digest("hex"),
      metadata: { commit: "abc" },
    },
  });
  const at = `/v1/code_artifacts/${made.body.id}`;
  expect((await app.call("GET", at)).body).toEqual(made.body);
  expect((await app.call("GET", "/v1/code_artifacts")).body.data).toEqual([made.body]);
  const content = await app.handle(
    new Request(`http://localhost${at}/content`, { headers: { authorization: `Bearer ${app.keyA}` } }),
  );
  expect(new Uint8Array(await content.arrayBuffer())).toEqual(GOOD);
  expect(content.headers.get("content-disposition")).toContain('filename="trainer.tar.gz"');
  expect((await app.call("DELETE", at)).body.deleted).toBe(true);
  expect((await app.call("GET", at)).status).toBe(404);
  expect(typesOf(app)).toEqual(["code_artifact.created", "code_artifact.deleted"]);
  expect([await stored(app), leftovers(app)]).toEqual([0, []]);
});

test("the same bytes are one artifact of a workspace, even if uploaded concurrently", async () => {
  const app = open();
  const both = await Promise.all([send(app), send(app, { name: "other" })]);
  expect(both.map((answer) => answer.status).sort()).toEqual([200, 201]);
  expect(both[0]?.body.id).toBe(both[1]?.body.id);
  expect(await send(app)).toMatchObject({ status: 200, body: { id: both[0]?.body.id } });
  expect((await send(app, { key: app.keyB })).status).toBe(201);
  expect(typesOf(app)).toHaveLength(2);
  expect([await stored(app), leftovers(app)]).toEqual([2, []]);
});

test("an Idempotency-Key returns the first answer again", async () => {
  const app = open();
  const headers = { "idempotency-key": "k" };
  const first = await send(app, { headers });
  await app.call("DELETE", `/v1/code_artifacts/${first.body.id}`);
  const again = await send(app, { headers });
  expect(again).toMatchObject({ status: 201, body: { id: first.body.id } });
  expect(again.headers.get("idempotent-replayed")).toBe("true");
  expect((await send(app, { headers, name: "other" })).status).toBe(409);
  expect(await stored(app)).toBe(0);
});

describe("refused, and nothing is stored", () => {
  test.each<[string, Form, string, string]>([
    ["a way out", { file: tarGz({ name: "../x" }) }, "file", '"../x" leads out'],
    ["a link", { file: zip({ name: "l", mode: 0o120777 }), filename: "a.zip" }, "file", '"l" is a symbolic link'],
    ["another format than its name says", { filename: "code.zip" }, "file", "not a zip archive"],
    ["no archive at all", { filename: "code.py" }, "file", ".tar.gz, .tgz or .zip"],
    ["metadata that is none", { metadata: "x" }, "metadata", "JSON object"],
    ["metadata of the wrong kind", { metadata: '{"a":1}' }, "metadata", ""],
    ["an empty name", { name: " " }, "name", ""],
  ])("%s", async (_name, form, param, words) => {
    const app = open();
    const answer = await send(app, form);
    expect(answer).toMatchObject({ status: 422, body: { error: { code: "schema", param } } });
    expect(answer.body.error.message).toContain(words);
    expect([await stored(app), leftovers(app), typesOf(app)]).toEqual([0, [], []]);
  });

  test("a form without a file, and a body that is not a form", async () => {
    const app = open();
    const form = new FormData();
    form.set("name", "x");
    const answer = await app.call("POST", "/v1/code_artifacts", undefined, { raw: form });
    expect(answer).toMatchObject({ status: 422, body: { error: { param: "file" } } });
    expect((await app.call("POST", "/v1/code_artifacts", {})).status).toBe(415);
  });
});

test("the artifacts of a deleted workspace are deleted", async () => {
  const app = open();
  await send(app);
  await send(app, { key: app.keyB });
  await app.call("DELETE", `/v1/workspaces/${app.workspaceA}`, undefined, { key: app.adminKey });
  await purge(app.ctx);
  expect(await stored(app)).toBe(1);
});

test("wherever it crashes, an artifact and its bytes exist together or not at all", async () => {
  const crashes = await atEveryFailpoint(async (attempt) => {
    const app = open();
    await attempt(async () => {
      if ((await send(app)).status >= 500) throw new Error("crashed");
    });
    await durable(app.ctx.db).catch(() => {});
    const after = open({ dir: app.dir });
    const { data } = (await after.call("GET", "/v1/code_artifacts")).body;
    expect(await stored(after)).toBe(data.length);
    expect((await send(after)).status).toBe(data.length === 1 ? 200 : 201);
  });
  expect(crashes).toBeGreaterThan(5);
}, 120_000);
