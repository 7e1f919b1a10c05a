import { afterEach, describe, expect, test } from "bun:test";
import { fakeRewards } from "../../../../test/fake_rewards.ts";
import { atEveryFailpoint, manyApps, type TestApp, until } from "../../../../test/harness.ts";
import { events } from "../../../events/table.ts";
import { AppError } from "../../../lib/errors.ts";
import { durable } from "../../../platform/db/db.ts";
import { purge } from "../../../purge.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const PATH = "/v1/reward_functions";
const GOOD = "def reward(completions, **kwargs):\n    return [1.0 for _ in completions]\n";
const BROKEN = "def reward(completions):\n  broken\n";

type Form = { file?: string | Uint8Array<ArrayBuffer>; filename?: string; fields?: Record<string, string> };
type Options = { key?: string; headers?: Record<string, string> };
function send(app: TestApp, { file = GOOD, filename = "reward.py", fields = {} }: Form = {}, options: Options = {}) {
  const form = new FormData();
  for (const [name, value] of Object.entries({ name: "accuracy", ...fields })) form.set(name, value);
  form.set("file", new Blob([file]), filename);
  return app.call("POST", PATH, undefined, { raw: form, ...options });
}
const typesOf = (app: TestApp) =>
  app.ctx.db
    .select()
    .from(events)
    .all()
    .map((event) => event.type)
    .filter((type) => type.startsWith("reward_function"));
const faked = () => {
  const app = open();
  return { app, pool: fakeRewards(app) };
};

test("a file is checked, kept, shown, listed, fetched and deleted", async () => {
  const { app, pool } = faked();
  const metadata = '{"commit":"abc"}';
  const made = await send(app, { fields: { description: "is it right?", timeout_seconds: "2.5", metadata } });
  expect(made).toMatchObject({
    status: 201,
    body: {
      object: "reward_function",
      name: "accuracy",
      version: 1,
      language: "python",
      builtin: false,
      description: "is it right?",
      timeout_seconds: 2.5,
      metadata: { commit: "abc" },
      entrypoints: [{ name: "reward", signature: "reward(completions, **kwargs)" }],
      sha256: new Bun.CryptoHasher("sha256").update(GOOD).digest("hex"),
      size_bytes: GOOD.length,
      status: "ready",
      error: null,
    },
  });
  expect([pool.taken, pool.open]).toEqual([1, 0]);
  const at = `${PATH}/${made.body.id}`;
  for (const ref of [made.body.id, "accuracy", "accuracy@1"])
    expect((await app.call("GET", `${PATH}/${ref}`)).body).toEqual(made.body);
  expect((await app.call("GET", PATH)).body.data).toEqual([made.body]);
  const source = await app.call("GET", `${at}/source`);
  expect(source.body).toBe(GOOD);
  expect(source.headers.get("content-type")).toBe("text/plain;charset=utf-8".replace(";", "; "));
  expect(source.headers.get("content-disposition")).toContain('filename="accuracy.py"');
  const etag = source.headers.get("etag") ?? "";
  expect((await app.call("GET", `${at}/source`, undefined, { headers: { "if-none-match": etag } })).status).toBe(304);
  expect((await app.call("DELETE", at)).body).toEqual({ id: made.body.id, object: "reward_function", deleted: true });
  for (const ref of [made.body.id, "accuracy", "accuracy@1", `${made.body.id}/source`])
    expect((await app.call("GET", `${PATH}/${ref}`)).status).toBe(404);
  expect((await app.call("GET", PATH)).body.data).toEqual([]);
  expect(typesOf(app)).toEqual(["reward_function.created", "reward_function.deleted"]);
});

test("the same as JSON, with the language given or detected", async () => {
  const { app } = faked();
  const found = await app.call("POST", PATH, { name: "a", source: GOOD });
  expect(found).toMatchObject({ status: 201, body: { language: "python", timeout_seconds: 5, description: null } });
  expect(found.body.metadata).toEqual({});
  const noted = await app.call("POST", PATH, { name: "e", source: GOOD, metadata: { a: "1" } });
  expect(noted.body.metadata).toEqual({ a: "1" });
  const script = "export function reward({ completions }) { return [] } // def reward(x)";
  expect((await app.call("POST", PATH, { name: "b", source: script })).body.language).toBe("typescript");
  expect((await app.call("POST", PATH, { name: "c", source: script, language: "javascript" })).body).toMatchObject({
    language: "javascript",
  });
  expect(await app.call("POST", PATH, { name: "d", source: "what is it" })).toMatchObject({
    status: 422,
    body: { error: { param: "/language" } },
  });
});

describe("versions", () => {
  test("the same name is the next version; the same code as the newest version returns that version", async () => {
    const { app, pool } = faked();
    const first = await send(app);
    const again = await send(app);
    expect([again.status, again.body]).toEqual([200, first.body]);
    expect(pool.taken).toBe(1);
    expect((await send(app, { file: `${GOOD}# 2` })).body.version).toBe(2);
    expect(await send(app)).toMatchObject({ status: 201, body: { version: 3 } }); // not the newest any more
    expect(await send(app, { fields: { timeout_seconds: "9" } })).toMatchObject({ status: 201, body: { version: 4 } });
    expect((await send(app, { fields: { metadata: "{}" } })).status).toBe(200);
    expect((await send(app, { fields: { metadata: '{"a":"1"}' } })).body).toMatchObject({
      version: 5,
      metadata: { a: "1" },
    });
    expect(await send(app, {}, { key: app.keyB })).toMatchObject({ status: 201, body: { version: 1 } });
    expect((await app.call("GET", `${PATH}/accuracy`)).body.version).toBe(5);
    expect((await app.call("GET", `${PATH}/accuracy@2`)).body.version).toBe(2);
    expect((await app.call("GET", `${PATH}/accuracy@9`)).status).toBe(404);
  });

  test("concurrent uploads get distinct numbers without a gap; equal uploads become one", async () => {
    const { app } = faked();
    const sent = await Promise.all(Array.from({ length: 12 }, (_, i) => send(app, { file: `${GOOD}# ${i}` })));
    expect(sent.map(({ body }) => body.version).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 12 }, (_, i) => i + 1),
    );
    const equal = await Promise.all([1, 2, 3].map(() => send(app, { file: `${GOOD}# same` })));
    expect(equal.map(({ status }) => status).sort()).toEqual([200, 200, 201]);
    expect(new Set(equal.map(({ body }) => body.id)).size).toBe(1);
  });

  test("the number of a deleted version is never used again, and the version before it is the newest", async () => {
    const { app } = faked();
    await send(app);
    const second = await send(app, { file: `${GOOD}# 2` });
    const ambiguous = await app.call("DELETE", `${PATH}/accuracy`);
    expect([ambiguous.status, ambiguous.body.error.code]).toEqual([400, "invalid_request"]);
    expect(ambiguous.body.error.message).toContain(`by its id (${second.body.id}) or as accuracy@2`);
    const builtIn = await app.call("DELETE", `${PATH}/exact_match`);
    expect([builtIn.status, builtIn.body.error.code]).toEqual([400, "invalid_request"]);
    expect(builtIn.body.error.message).toBe("Built-in reward functions cannot be deleted");
    expect((await app.call("DELETE", `${PATH}/accuracy@2`)).status).toBe(200);
    expect((await app.call("GET", `${PATH}/accuracy`)).body.version).toBe(1);
    expect((await send(app, { file: `${GOOD}# 2` })).body.version).toBe(3);
    const kept = app.ctx.db.$client.query("SELECT source FROM reward_functions WHERE version = 2").get();
    expect(kept).toEqual({ source: "" });
  });

  test("are listed by name, or only the newest of each", async () => {
    const { app } = faked();
    for (const name of ["a", "a", "b", "a"]) await send(app, { file: GOOD + crypto.randomUUID(), fields: { name } });
    const listed = async (query: string) =>
      (await app.call("GET", `${PATH}?${query}`)).body.data.map(
        (each: { name: string; version: number }) => `${each.name}@${each.version}`,
      );
    expect(await listed("name=a")).toEqual(["a@3", "a@2", "a@1"]);
    expect(await listed("latest=true")).toEqual(["a@3", "b@1"]);
    expect(await listed("latest=true&name=b")).toEqual(["b@1"]);
    const page = (await app.call("GET", `${PATH}?limit=2`)).body;
    expect(page.has_more).toBe(true);
    expect(await listed(`limit=2&after=${page.data[1].id}`)).toEqual(["a@2", "a@1"]);
  });
});

describe("code that does not load", () => {
  test("is stored as invalid with line and column, and its name resolves to a ready version if there is one", async () => {
    const { app } = faked();
    const bad = await send(app, { file: BROKEN });
    expect(bad).toMatchObject({
      status: 201,
      body: {
        status: "invalid",
        entrypoints: [],
        error: { code: "syntax", message: "it is broken", line: 3, column: 7 },
      },
    });
    expect((await app.call("GET", `${PATH}/accuracy`)).body.version).toBe(1); // there is no other
    const run = await app.call("POST", `${PATH}/accuracy/run`, { rows: [{ completion: "x" }] });
    expect(run).toMatchObject({ status: 422, body: { error: { code: "reward_invalid", param: "id" } } });
    expect(run.body.error.message).toContain("accuracy@1 cannot be run: line 3, column 7: it is broken");
    await send(app);
    await send(app, { file: BROKEN });
    expect((await app.call("GET", `${PATH}/accuracy`)).body).toMatchObject({ version: 2, status: "ready" });
  });

  test("is 503 without a sandbox, and nothing is stored", async () => {
    const { app, pool } = faked();
    pool.refuse(new AppError("sandbox_unavailable", "no sandbox here"));
    expect(await send(app)).toMatchObject({ status: 503, body: { error: { code: "sandbox_unavailable" } } });
    pool.refuse(undefined);
    expect((await app.call("GET", PATH)).body.data).toEqual([]);
    expect((await send(app)).body.version).toBe(1);
  });
});

test("an Idempotency-Key returns the first answer again, even while the first is being checked", async () => {
  const { app, pool } = faked();
  const headers = { "idempotency-key": "k" };
  const [first, beside] = await Promise.all([send(app, {}, { headers }), send(app, {}, { headers })]);
  expect([first.status, beside.body.id]).toEqual([201, first.body.id]);
  await app.call("DELETE", `${PATH}/${first.body.id}`);
  const again = await send(app, {}, { headers });
  expect(again).toMatchObject({ status: 201, body: { id: first.body.id } });
  expect(again.headers.get("idempotent-replayed")).toBe("true");
  expect((await send(app, { file: `${GOOD}#` }, { headers })).status).toBe(409);
  expect(pool.taken).toBe(1);
});

test("a client that disconnects, and a server that stops, end the check and store nothing", async () => {
  for (const end of ["client", "server"]) {
    const { app, pool } = faked();
    const client = new AbortController();
    const form = new FormData();
    form.set("name", "slow");
    form.set("file", new Blob([`${GOOD}# waits`]), "slow.py");
    const headers = { authorization: `Bearer ${app.keyA}` };
    const answer = app.handle(
      new Request(`http://localhost${PATH}`, { method: "POST", body: form, headers, signal: client.signal }),
    );
    await until("the check to begin", () => pool.open === 1);
    if (end === "client") client.abort();
    else await app.close();
    expect((await answer).status).toBe(end === "client" ? 400 : 503);
    expect(pool.open).toBe(0);
    if (end === "client") expect((await app.call("GET", PATH)).body.data).toEqual([]);
  }
});

describe("refused, and nothing is stored", () => {
  const long = `${GOOD}#${"x".repeat(1 << 20)}`;
  test.each<[string, Form, number, string | null, string]>([
    ["no name", { fields: { name: "" } }, 422, "name", ""],
    ["a name with an @", { fields: { name: "a@3" } }, 422, "name", "contain no / or @"],
    ["a name that is a path", { fields: { name: "library" } }, 422, "name", "is reserved"],
    [
      "a name that looks like an id",
      { fields: { name: `rf_${"0".repeat(26)}` } },
      422,
      "name",
      "must not look like an id",
    ],
    ["a built-in reward's name", { fields: { name: "exact_match" } }, 422, "name", "built-in reward"],
    ["too long", { file: long }, 413, null, "1048576"],
    ["no text", { file: new Uint8Array([0xff, 0xfe]) }, 422, "file", "UTF-8"],
    ["nothing", { file: "" }, 422, "file", "empty"],
    ["another language than its name", { fields: { language: "javascript" } }, 422, "language", "name says python"],
    ["a language that is none", { fields: { language: "perl" } }, 422, "language", ""],
    ["a time that is none", { fields: { timeout_seconds: "soon" } }, 422, "timeout_seconds", "number of seconds"],
    ["metadata that is none", { fields: { metadata: "x" } }, 422, "metadata", "JSON object"],
    ["no time at all", { fields: { timeout_seconds: "0" } }, 422, "timeout_seconds", ""],
  ])("%s", async (_name, form, status, param, words) => {
    const { app, pool } = faked();
    const answer = await send(app, form);
    expect(answer).toMatchObject({ status, body: { error: { param } } });
    expect(answer.body.error.message).toContain(words);
    expect([pool.taken, typesOf(app)]).toEqual([0, []]);
  });

  test("a form without a file, JSON without source, and another content type", async () => {
    const { app } = faked();
    const form = new FormData();
    form.set("name", "x");
    const without = await app.call("POST", PATH, undefined, { raw: form });
    expect(without).toMatchObject({ status: 422, body: { error: { param: "file" } } });
    expect(await app.call("POST", PATH, { name: "x" })).toMatchObject({
      status: 422,
      body: { error: { param: "/source" } },
    });
    expect(
      (await app.call("POST", PATH, undefined, { raw: "x", headers: { "content-type": "text/x-python" } })).status,
    ).toBe(415);
  });
});

test("the code of a deleted workspace is deleted", async () => {
  const { app } = faked();
  await send(app);
  await send(app, {}, { key: app.keyB });
  await app.call("DELETE", `/v1/workspaces/${app.workspaceA}`, undefined, { key: app.adminKey });
  await purge(app.ctx);
  const left = app.ctx.db.$client.query("SELECT workspace_id AS id FROM reward_functions WHERE source <> ''").all();
  expect(left).toEqual([{ id: app.workspaceB }]);
});

test("wherever it crashes, a version and its event exist together or not at all, and the next has the next number", async () => {
  const crashes = await atEveryFailpoint(async (attempt) => {
    const { app } = faked();
    await attempt(async () => {
      if ((await send(app)).status >= 500) throw new Error("crashed");
    });
    await durable(app.ctx.db).catch(() => {});
    const after = open({ dir: app.dir });
    fakeRewards(after);
    const { data } = (await after.call("GET", PATH)).body;
    expect(typesOf(after).length).toBe(data.length);
    expect((await send(after)).status).toBe(data.length === 1 ? 200 : 201);
    expect((await send(after, { file: `${GOOD}#` })).body.version).toBe(2);
  });
  expect(crashes).toBeGreaterThan(2);
}, 60_000);
