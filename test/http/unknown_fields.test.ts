/** Fields and query parameters that a route does not have. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { similar } from "../../src/http/body/unknown_fields.ts";
import { fakeRewards } from "../fake_rewards.ts";
import { type TestApp, testApp } from "../harness.ts";

let app: TestApp;
beforeAll(() => {
  app = testApp();
  fakeRewards(app);
});
afterAll(() => app.close().then(app.remove));

const warning = (headers: Headers) => headers.get("warning");

describe("F30 unknown fields of a body", () => {
  test.each([
    ["a key", "POST", "/v1/api_keys", { nmae: "x" }, "/nmae", "name"],
    ["beside the right one", "POST", "/v1/api_keys", { name: "x", scope: ["read"] }, "/scope", "scopes"],
    ["a deployment", "POST", "/v1/deployments", { modle: "x", name: "y" }, "/modle", "model"],
    ["a job", "POST", "/v1/training_jobs", { base_modle: "x", method: "sft" }, "/base_modle", "base_model"],
    [
      "a nested object",
      "POST",
      "/v1/deployments",
      { model: "x", name: "y", gpu: { gpu_cuont: 1 } },
      "/gpu/gpu_cuont",
      "gpu_count",
    ],
    ["a body that the route reads itself", "POST", "/v1/datasets", { name: "x", formt: "prompt" }, "/formt", "format"],
  ])("%s: a name like a known one is 422 with the suggestion", async (_what, method, path, body, param, meant) => {
    const answer = await app.call(method, path, body);
    expect([answer.status, answer.body.error.type, answer.body.error.param]).toEqual([422, "validation_error", param]);
    expect(answer.body.error.message).toContain(`Did you mean ${meant}?`);
  });

  test("appended rows", async () => {
    const { id } = (await app.call("POST", "/v1/datasets", { name: "rows", format: "prompt" })).body;
    const body = { rows: [{ prompt: "x" }], expected_head_rwo: 0 };
    const { status, body: answer } = await app.call("POST", `/v1/datasets/${id}/rows`, body);
    expect([status, answer.error?.param]).toEqual([422, "/expected_head_rwo"]);
  });

  test("detection refuses a misspelled field too, in its own error format", async () => {
    const { status, body } = await app.call("PUT", "/v1/config", { webhokUrl: "https://example.com/x" });
    expect([status, body.code]).toEqual([400, "INVALID_REQUEST"]);
    expect(body.error).toContain("Did you mean webhookUrl?");
  });

  test("other unknown fields are ignored, and the warning header names them", async () => {
    const { status, headers } = await app.call("POST", "/v1/api_keys", { name: "x", favourite_colour: 1, 'ü"\n': 2 });
    expect(status).toBe(201);
    expect(warning(headers)).toBe('299 verk "ignored: unknown field /favourite_colour; unknown field /___"');
  });

  test("known fields cause no warning", async () => {
    expect(warning((await app.call("POST", "/v1/api_keys", { name: "x", scopes: ["read"] })).headers)).toBeNull();
  });

  test("names inside metadata and env are the caller's own", async () => {
    const { status, headers } = await app.call("POST", "/v1/api_keys", {
      name: "x",
      metadata: { nam: "1", scope: "2" },
    });
    expect([status, warning(headers)]).toEqual([201, null]);
  });

  test("inference routes ignore unknown fields, and the warning header names them", async () => {
    const body = { model: "none", messages: [{ role: "user", content: "x" }], dry_multiplier: 3 };
    const { status, headers } = await app.call("POST", "/v1/chat/completions", body);
    expect([status, warning(headers)]).toEqual([404, '299 verk "ignored: unknown field /dry_multiplier"']);
  });

  test("inference routes refuse a field that looks like a known one, or that would constrain the output", async () => {
    const call = async (more: object) => {
      const body = { model: "none", messages: [{ role: "user", content: "x" }], ...more };
      return (await app.call("POST", "/v1/chat/completions", body)).body.error;
    };
    expect(await call({ max_tokns: 3 })).toMatchObject({ code: "invalid_value", param: "/max_tokns" });
    expect((await call({ max_tokns: 3 })).message).toContain("Did you mean max_tokens?");
    expect(await call({ ebnf: "root ::= x" })).toMatchObject({ code: "invalid_value", param: "/ebnf" });
    expect(await call({ ebnf: null })).toMatchObject({ code: "model_not_found" });
    const text = [{ type: "text", text: "x", txt: "y" }];
    expect(await call({ messages: [{ role: "user", content: text }] })).toMatchObject({
      param: "/messages/0/content/0/txt",
    });
  });

  test("inference: a nested field is named once, and values that an answer has are not", async () => {
    const message = { role: "assistant", content: "x", refusal: null, annotations: [], mood: "good" };
    const messages = [{ role: "user", content: "x" }, message, { role: "user", content: "x" }, message, message];
    const body = { model: "none", messages, audio: null, lora: [{ id: "a", weight: 2 }] };
    const { headers } = await app.call("POST", "/v1/chat/completions", body);
    expect(warning(headers)).toBe('299 verk "ignored: unknown field /messages/1/mood; unknown field /lora/0/weight"');
  });

  test("inference: a long chat costs little", async () => {
    const messages = Array.from({ length: 3_000 }, (_, i) => ({ role: "user", content: "x", [`odd_${i}`]: 1 }));
    const { headers } = await app.call("POST", "/v1/chat/completions", { model: "none", messages });
    expect(warning(headers)).toEndWith('; unknown field /messages/9/odd_9; and more"');
  });

  test("a hostile body costs little and gets ten names at most", async () => {
    const body = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`${"z".repeat(200)}${i}`, i]));
    const { headers } = await app.call("POST", "/v1/api_keys", { name: "x", ...body });
    expect(warning(headers)?.split(";")).toHaveLength(11);
    expect(warning(headers)).toEndWith('; and more"');
    expect(warning(headers)?.length).toBeLessThan(1_500);
  });
});

describe("D15 unknown fields of a form", () => {
  const JSONL = '{"prompt":"x"}\n';
  const CODE = "def reward(completions, **kwargs):\n    return [1.0 for _ in completions]\n";
  const send = (path: string, fields: Record<string, string>, file: File) => {
    const body = new FormData();
    for (const [name, value] of Object.entries(fields)) body.append(name, value);
    body.append("file", file);
    return app.call("POST", path, undefined, { raw: body });
  };
  const FORMS = [
    ["a dataset", "/v1/datasets", new File([JSONL], "rows.jsonl")],
    ["a reward function", "/v1/reward_functions", new File([CODE], "reward.py")],
    ["a code artifact", "/v1/code_artifacts", new File(["x"], "code.zip")],
  ] as const;

  test.each(FORMS)("%s: a name like a known one is 422 with the suggestion", async (_what, path, file) => {
    const { status, body } = await send(path, { name: "x", metdata: "{}" }, file);
    expect([status, body.error.type, body.error.param]).toEqual([422, "validation_error", "metdata"]);
    expect(body.error.message).toContain("Did you mean metadata?");
  });

  test.each(FORMS)("%s: another unknown field is named in the warning header", async (_what, path, file) => {
    const { headers } = await send(path, { name: "x", favourite_colour: "red" }, file);
    expect(warning(headers)).toBe('299 verk "ignored: unknown form field favourite_colour"');
    expect(warning((await send(path, { name: "x" }, file)).headers)).toBeNull();
  });
});

test("F30 unknown query parameters are ignored and named", async () => {
  const { status, headers } = await app.call("GET", "/v1/api_keys?limt=3&limit=2");
  expect([status, warning(headers)]).toEqual([200, '299 verk "ignored: unknown query parameter limt"']);
});

test("two names are similar within two edits, if they share letters", () => {
  const known = ["name", "model", "to"];
  expect(similar("nmae", known)).toBe("name");
  expect(similar("Model", known)).toBe("model");
  expect(similar("mode", known)).toBe("model");
  expect(similar("id", known)).toBeUndefined();
  expect(similar("colour", known)).toBeUndefined();
  expect(similar("x".repeat(65), ["x".repeat(64)])).toBeUndefined();
});
