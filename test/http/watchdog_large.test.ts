// tier: all (many seconds)
/** Valid large requests take turns with others: rows of datasets, batches of images, rows for rewards. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { sampleOf } from "../sweep.ts";
import { type Guarded, guardedServer, MOST_CPU_MS } from "./watchdog_kit.ts";

const MIB = 1 << 20;
const LINES = { "content-type": "application/x-ndjson" };

let server: Guarded;
let dataset = "";
beforeAll(async () => {
  server = await guardedServer();
  dataset = JSON.parse((await server.send("POST", "/v1/datasets", '{"name":"large","format":"prompt"}')).text).id;
}, 60_000);
afterAll(() => server?.close());

/** The maximum number of rows. */
const filled = (row: string, bytes: number, between: string) => {
  const count = Math.floor(bytes / (row.length + between.length));
  return `${`${row}${between}`.repeat(count - 1)}${row}`;
};
const json = (row: string, bytes = 64 * MIB - 100) => `{"rows":[${filled(row, bytes, ",")}]}`;
const text = `{"prompt":"${"words and more words ".repeat(10)}"}`;

type Append = [name: string, status: number, body: () => string, more: Record<string, string>];
const APPENDS: Append[] = [
  ["64 MiB of rows as JSON, with an Idempotency-Key", 201, () => json(text), { "idempotency-key": "large" }],
  ["64 MiB of rows as lines", 201, () => filled(text, 64 * MIB - 100, "\n"), LINES],
  ["half a million small rows with odd numbers", 201, () => json('{"prompt":"","x":1.50}', 12 * MIB), {}],
  ["a row of many numbers", 422, () => json(`{"prompt":"","x":[${"1.50,".repeat(3_000_000)}0]}`, 16 * MIB), {}],
  ["millions of empty objects", 422, () => json("{}"), {}],
  ["millions of numbers instead of rows", 422, () => json("1"), {}],
  ["millions of numbers beside rows", 413, () => `{"x":[${"1,".repeat(30_000_000)}1],"rows":[]}`, {}],
  ["millions of tombstones", 422, () => json('{"_op":"tombstone","_row_id":1}'), {}],
  ["millions of tombstones as lines", 422, () => filled('{"_op":"tombstone","_row_id":1}', 60 * MIB, "\n"), LINES],
  ["a text without an end", 400, () => `{"rows":["${"\\n".repeat(30_000_000)}`, {}],
  ["nothing but brackets", 400, () => `{"rows":[${"[".repeat(15 * MIB)}`, {}],
];

test.each(sampleOf("large appends", APPENDS, 0.2))(
  "H1: an append of %s does not delay other requests",
  async (_name, expected, body, more) => {
    const bytes = Buffer.from(body());
    await server.watched();
    const { status, text } = await server.send("POST", `/v1/datasets/${dataset}/rows`, bytes, more);
    const { longestCpuMs, answers } = await server.watched();
    expect([status, text.slice(0, 300)]).toEqual([expected, text.slice(0, 300)]);
    expect(longestCpuMs).toBeLessThan(MOST_CPU_MS);
    expect(answers).toBeGreaterThan(0);
  },
  300_000,
);

test("H1: 128 MiB of images do not delay other requests", async () => {
  const image = `{"image":"${"QUJD".repeat(32_000)}"}`;
  const body = Buffer.from(`{"images":[${filled(image, 120 * MIB, ",")}]}`);
  await server.watched();
  const { status } = await server.send("POST", "/api/detect/batch", body);
  const { longestCpuMs, answers } = await server.watched();
  expect(status).toBe(202);
  expect(longestCpuMs).toBeLessThan(MOST_CPU_MS);
  expect(answers).toBeGreaterThan(0);
}, 300_000);

test("H1: ten thousand rows for a reward, all odd numbers, do not delay other requests", async () => {
  const row = `{"completion":"x","n":[${"1.50,".repeat(15)}2.50]}`;
  const source = "def reward(completion, **kwargs):\n    return 1.0\n";
  const body = `{"source":${JSON.stringify(source)},"language":"python","rows":[${`${row},`.repeat(9_999)}${row}]}`;
  await server.watched();
  const { text } = await server.send("POST", "/v1/reward_functions/run", body);
  const { longestCpuMs } = await server.watched();
  expect(text).not.toContain('"internal"');
  expect(longestCpuMs).toBeLessThan(MOST_CPU_MS);
}, 300_000);
