import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type TestApp, testApp } from "../harness.ts";
import { MUST_ACCEPT, MUST_REFUSE } from "../json_suite.ts";

let app: TestApp;
let id: string;
beforeAll(async () => {
  app = testApp();
  id = (await app.call("POST", "/v1/datasets", { name: "json", format: "prompt" })).body.id;
});
afterAll(() => app.close().then(app.remove));

const NDJSON = { "content-type": "application/x-ndjson" };
const append = (raw: string, headers: Record<string, string>) =>
  app.call("POST", `/v1/datasets/${id}/rows`, undefined, { raw, headers });
const last = async () => {
  const { head_row } = (await app.call("GET", `/v1/datasets/${id}`)).body;
  const url = `http://localhost/v1/datasets/${id}/rows?after=${head_row - 1}`;
  const answer = await app.handle(new Request(url, { headers: { authorization: `Bearer ${app.keyA}` } }));
  return await answer.text();
};

describe("JSON that must be accepted", () => {
  test.each(MUST_ACCEPT.map((value) => [value]))("%p", async (value) => {
    const row = `{"prompt":"p","x":${value}}`;
    for (const answer of [
      await append(`${row}\n`, NDJSON),
      await append(`{"rows":[${row}]}`, { "content-type": "application/json" }),
    ])
      expect(answer).toMatchObject({ status: 201, body: { appended: 1 } });
    expect(JSON.parse(await last()).data[0].data).toEqual(JSON.parse(row));
  });
});

describe("JSON that must be refused", () => {
  test.each(MUST_REFUSE.map((value) => [value.slice(0, 40), value] as const))("%p", async (_, value) => {
    const before = (await app.call("GET", `/v1/datasets/${id}`)).body.head_row;
    const row = `{"prompt":"p","x":${value}}`;
    expect(await append(`{"prompt":"good"}\n${row}\n`, NDJSON)).toMatchObject({
      status: 422,
      body: { error: { code: "schema", message: expect.stringContaining("Line 2:") } },
    });
    const whole = await append(`{"rows":[${row}]}`, { "content-type": "application/json" });
    expect([400, 422]).toContain(whole.status);
    expect((await app.call("GET", `/v1/datasets/${id}`)).body.head_row).toBe(before);
  });
});

test("digits that a double would round stay as they were written, in both kinds of body and in every answer", async () => {
  const digits = "12345678901234567890.123456789012345678901234567890";
  for (const [body, type] of [
    [`{"prompt":"p","x":${digits}}\n`, "application/x-ndjson"],
    [`{"rows":[{"prompt":"p","x":${digits}}]}`, "application/json"],
  ] as const) {
    await append(body, { "content-type": type });
    expect(await last()).toContain(`"x":${digits}`);
  }
  const out = await app.call("GET", `/v1/datasets/${id}/rows/export`);
  expect(out.body.match(new RegExp(digits, "g"))).toHaveLength(2);
  const csv = await app.call("GET", `/v1/datasets/${id}/rows/export?format=csv`);
  expect(csv.body.match(new RegExp(digits, "g"))).toHaveLength(2);
});

test("a number stays in the stream as it was written, beside any other values", async () => {
  const id = (await app.call("POST", "/v1/datasets", { name: "numbers", format: "prompt" })).body.id;
  const numbers = ["1.50", "1.0", "1e2", "-0", "0.0000001", "12345678901234567890", "7", "0.25"];
  const rows = numbers.map((number) => `{"prompt":"p","x":${number}}`);
  const send = (raw: string) =>
    app.call("POST", `/v1/datasets/${id}/rows`, undefined, { raw, headers: { "content-type": "application/json" } });
  await send(`{"rows":[${rows.join()}]}`);
  for (const row of rows) await send(`{"rows":[${row}]}`);
  const out = (await app.call("GET", `/v1/datasets/${id}/rows/export`)).body as string;
  expect(out).toBe([...rows, ...rows, ""].join("\n"));
});
