// tier: all (needs a sandbox)
import { afterAll, beforeAll, expect, test } from "bun:test";
import OpenAI, { toFile } from "openai";
import { type TestApp, testApp } from "../../../../test/harness.ts";
import { exec } from "../../../../test/sandbox/sessions_kit.ts";

let app: TestApp;
let openai: OpenAI;
const clientOf = (apiKey: string) =>
  new OpenAI({
    apiKey,
    baseURL: "http://localhost/v1",
    maxRetries: 0,
    fetch: ((url: string, init: RequestInit) => app.handle(new Request(url, init))) as typeof fetch,
  });
beforeAll(() => {
  app = testApp();
  openai = clientOf(app.keyA);
});
afterAll(() => app.close().then(app.remove));
const refusalOf = (call: PromiseLike<unknown>) => Promise.resolve(call).catch((error: unknown) => error);

test("openai: a container is made, read, listed and deleted, and is a session", async () => {
  const made = await openai.containers.create({
    name: "first",
    expires_after: { anchor: "last_active_at", minutes: 20 },
    memory_limit: "4g",
    network_policy: { type: "disabled" },
  });
  expect(made).toMatchObject({
    object: "container",
    name: "first",
    status: "running",
    expires_after: { anchor: "last_active_at", minutes: 20 },
    network_policy: { type: "disabled" },
  });
  const other = await openai.containers.create({ name: "second" });
  expect(await openai.containers.retrieve(made.id)).toMatchObject({ id: made.id, created_at: made.created_at });
  const idsOf = async (query: object) => (await openai.containers.list(query)).data.map(({ id }) => id);
  expect(await idsOf({ limit: 1 })).toEqual([other.id]);
  expect(await idsOf({ after: other.id })).toEqual([made.id]);
  expect(await idsOf({ name: "first" })).toEqual([made.id]);
  expect((await app.call("GET", `/v1/sessions/${made.id}`)).body).toMatchObject({ idle_timeout_seconds: 1200 });
  const stranger = clientOf(app.keyB);
  expect(await refusalOf(stranger.containers.retrieve(made.id))).toBeInstanceOf(OpenAI.NotFoundError);
  await openai.containers.delete(made.id);
  await openai.containers.delete(other.id);
  expect(await refusalOf(openai.containers.retrieve(made.id))).toBeInstanceOf(OpenAI.NotFoundError);
  expect(await idsOf({})).toEqual([]);
  expect((await app.call("GET", `/v1/sessions/${made.id}`)).body.status).toBe("stopped");
}, 60_000);

test("openai: files of a container come from the client, from the workspace and from commands", async () => {
  const source = await openai.files.create({ file: await toFile(Buffer.from("one"), "a.txt"), purpose: "user_data" });
  const { id } = await openai.containers.create({ name: "files", file_ids: [source.id] });
  const uploaded = await openai.containers.files.create(id, { file: await toFile(Buffer.from("two"), "b.txt") });
  expect(uploaded).toMatchObject({
    object: "container.file",
    container_id: id,
    path: "/workspace/b.txt",
    bytes: 3,
    source: "user",
  });
  const again = await openai.files.create({ file: await toFile(Buffer.from("three"), "c.txt"), purpose: "user_data" });
  expect(await openai.containers.files.create(id, { file_id: again.id })).toMatchObject({ path: "/workspace/c.txt" });
  expect((await exec(app, id, "mkdir d; cat a.txt b.txt > d/e.txt")).exit_code).toBe(0);
  const names: string[] = [];
  for await (const { path } of openai.containers.files.list(id, { limit: 1, order: "asc" })) names.push(path);
  expect(names.sort()).toEqual(["/workspace/a.txt", "/workspace/b.txt", "/workspace/c.txt", "/workspace/d/e.txt"]);
  const [last] = (await openai.containers.files.list(id)).data;
  expect(last?.path).toBe("/workspace/d/e.txt");
  const file = { container_id: id };
  expect(await openai.containers.files.retrieve(last?.id ?? "", file)).toMatchObject({ bytes: 6 });
  expect(await (await openai.containers.files.content.retrieve(last?.id ?? "", file)).text()).toBe("onetwo");
  await openai.containers.files.delete(uploaded.id, file);
  expect(await refusalOf(openai.containers.files.retrieve(uploaded.id, file))).toBeInstanceOf(OpenAI.NotFoundError);
  await openai.containers.delete(id);
}, 60_000);

test("what a container cannot do is refused in words, and nothing stays", async () => {
  const refused = async (fields: object) =>
    String(await refusalOf(openai.containers.create({ name: "x", ...fields } as never)));
  const allowlist = { type: "allowlist", allowed_domains: ["example.com"] };
  expect(await refused({ network_policy: allowlist })).toContain("must be disabled");
  expect(await refused({ skills: [{ type: "skill_reference", skill_id: "s" }] })).toContain("are not supported");
  expect(await refused({ file_ids: ["file_none"] })).toContain("No file file_none");
  const { key } = app.keyOf("alpha", ["inference"]);
  expect(String(await refusalOf(clientOf(key).containers.create({ name: "x" })))).toContain("lacks the scope");
  expect((await openai.containers.list()).data).toEqual([]);
  const { id } = await openai.containers.create({ name: "x" });
  expect(String(await refusalOf(openai.containers.files.create(id, {})))).toContain("send one file");
  for (const odd of ["cfile_", "cfile_Li4vLi4vZXRj", "none"])
    expect(await refusalOf(openai.containers.files.retrieve(odd, { container_id: id }))).toBeInstanceOf(
      OpenAI.APIError,
    );
  const evil = await openai.containers.files.create(id, { file: await toFile(Buffer.from("x"), "../../etc/passwd") });
  expect(evil.path).toBe("/workspace/passwd");
  await openai.containers.delete(id);
}, 60_000);
