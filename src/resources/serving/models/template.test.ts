import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync, rmSync } from "node:fs";
import { type TestApp, tempDir, testApp } from "../../../../test/harness.ts";
import { makeModel } from "../../../../test/models.ts";

let app: TestApp;
let id = "";

async function upload(template: string | undefined): Promise<string> {
  const dir = tempDir();
  const path = makeModel(dir, { arch: "llama", type: "F16", ...(template === undefined ? {} : { template }) });
  const bytes = readFileSync(path);
  rmSync(dir, { recursive: true });
  const made = (await app.call("POST", "/v1/models", { name: crypto.randomUUID() })).body.id as string;
  const { body } = await app.call("POST", `/v1/models/${made}/presigned-upload`, { files: [{ path: "m.gguf" }] });
  await app.call("PUT", body.files[0].url.replace("http://localhost", ""), undefined, { key: null, raw: bytes });
  await app.call("POST", `/v1/models/${made}/complete`);
  return made;
}

beforeAll(async () => {
  app = testApp();
  id = await upload(undefined);
});
afterAll(() => app.close().then(app.remove));

const render = (model: string, ...conversations: object[]) =>
  app.call("POST", `/v1/models/${model}/template`, { conversations });
const user = (content: string) => ({ messages: [{ role: "user", content }] });

test("conversations are rendered as a chat request renders them, with their tokens", async () => {
  const whole = { ...user("hi <|im_end|>"), add_generation_prompt: false };
  const { status, body } = await render(id, user("hi"), whole);
  expect(status).toBe(200);
  const [open, closed] = body.conversations;
  expect(body).toMatchObject({ object: "model.template", conversations: [{ error: null }, { error: null }] });
  expect(open.text).toContain("<|im_start|>user\nhi<|im_end|>");
  expect(open.text).toEndWith("<|im_start|>assistant\n");
  expect(closed.text).toEndWith("hi <|im_end|><|im_end|>\n");
  expect(open.tokens).toBeGreaterThan(3);
});

test("a template that rejects a conversation says why, and the others are rendered", async () => {
  const strict = await upload(
    "{% for m in messages %}{% if 'bad' in m.content %}{{ raise_exception('no bad words') }}{% endif %}{{ m.content }}{% endfor %}",
  );
  const { body } = await render(strict, user("fine"), user("bad"));
  expect(body.conversations).toEqual([
    { text: "fine", tokens: expect.any(Number), error: null },
    { text: null, tokens: null, error: expect.stringContaining("no bad words") },
  ]);
});

test("a model without a file, an unknown model, and too much are rejected", async () => {
  const empty = (await app.call("POST", "/v1/models", { name: "empty" })).body.id;
  expect(await render(empty, user("x"))).toMatchObject({ status: 400, body: { error: { code: "unsupported_state" } } });
  expect((await render("nothing", user("x"))).status).toBe(404);
  const foreign = await app.call(
    "POST",
    `/v1/models/${id}/template`,
    { conversations: [user("x")] },
    { key: app.keyB },
  );
  expect(foreign.status).toBe(404);
  const many = await render(id, ...Array.from({ length: 17 }, () => user("x")));
  expect(many).toMatchObject({ status: 422, body: { error: { param: "/conversations" } } });
  expect((await render(id)).status).toBe(422);
});
