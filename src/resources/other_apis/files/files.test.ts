import { afterAll, beforeAll, expect, test } from "bun:test";
import { type TestApp, testApp } from "../../../../test/harness.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { usedBytes } from "../../data/storage_usage/service.ts";
import { sweep } from "../../data/volumes/sweep.ts";
import { prune } from "./service.ts";

let app: TestApp;
beforeAll(() => {
  app = testApp({ flags: { "quotas.file_bytes": 100 } });
});
afterAll(() => app.close().then(app.remove));

const form = (fields: Record<string, string>, content: string | null = "hello", name = "a.jsonl") => {
  const made = new FormData();
  if (content !== null) made.set("file", new File([content], name)); // before the fields: a client may send it first
  for (const [field, value] of Object.entries(fields)) made.set(field, value);
  return made;
};
const send = (raw: FormData, headers: Record<string, string> = {}) =>
  app.call("POST", "/v1/files", undefined, { raw, headers });
const used = () => usedBytes(app.ctx.db, { workspaceId: app.workspaceA, kind: "files" });
const storedKeys = async () => (await app.ctx.storage.list("files/")).items.map(({ key }) => key);

test("a file is stored, read, listed by purpose and deleted with its content", async () => {
  const { status, body } = await send(form({ purpose: "batch" }));
  expect(status).toBe(200);
  expect(body).toMatchObject({ object: "file", bytes: 5, filename: "a.jsonl", purpose: "batch", expires_at: null });
  expect(used()).toBe(5);
  expect((await app.call("GET", `/v1/files/${body.id}`)).body).toEqual(body);
  expect((await app.call("GET", `/v1/files/${body.id}/content`)).body).toBe("hello");
  const listed = async (purpose: string) => (await app.call("GET", `/v1/files?purpose=${purpose}`)).body.data;
  expect([await listed("batch"), await listed("evals")]).toEqual([[body], []]);
  for (const path of ["", "/content"])
    expect((await app.call("GET", `/v1/files/${body.id}${path}`, undefined, { key: app.keyB })).status).toBe(404);
  expect((await app.call("DELETE", `/v1/files/${body.id}`)).body).toEqual({
    id: body.id,
    object: "file",
    deleted: true,
  });
  await sweep(app.ctx);
  expect([await storedKeys(), used()]).toEqual([[], 0]);
});

test("a bad form is refused in the format of OpenAI, and nothing of it stays", async () => {
  const many = form({ purpose: "batch" });
  many.append("file", new File(["x"], "b"));
  const cases: [FormData, number, string, RegExp][] = [
    [form({}), 400, "purpose", /required/],
    [form({ purpose: "poetry" }), 400, "purpose", /fine-tune/],
    [form({ purpose: "batch" }, null), 400, "file", /required/],
    [form({ purpose: "batch", "expires_after[seconds]": "5" }), 400, "expires_after[seconds]", /3600/],
    [form({ purpose: "batch" }, "x".repeat(200)), 400, "file", /quotas\.file_bytes/],
    [many, 400, "file", /exactly one/],
  ];
  for (const [raw, status, param, why] of cases) {
    const answer = await send(raw);
    expect(answer).toMatchObject({ status, body: { error: { param, message: expect.stringMatching(why) } } });
  }
  await sweep(app.ctx);
  expect([await storedKeys(), used()]).toEqual([[], 0]);
});

test("a request that is repeated with its key makes one file", async () => {
  const headers = { "idempotency-key": "once" };
  const [first, second] = [
    await send(form({ purpose: "evals" }), headers),
    await send(form({ purpose: "evals" }), headers),
  ];
  expect(second.body).toEqual(first.body);
  await sweep(app.ctx);
  expect(await storedKeys()).toHaveLength(1);
  await app.call("DELETE", `/v1/files/${first.body.id}`);
});

test("a file with an end is removed after it", async () => {
  const { id, created_at, expires_at } = (await send(form({ purpose: "user_data", "expires_after[seconds]": "3600" })))
    .body;
  expect(expires_at - created_at).toBe(3600);
  await prune(app.ctx);
  expect((await app.call("GET", `/v1/files/${id}`)).status).toBe(200);
  await prune({ ...app.ctx, clock: { ...app.ctx.clock, now: () => Date.now() + DAY_MS } });
  expect((await app.call("GET", `/v1/files/${id}`)).status).toBe(404);
});
