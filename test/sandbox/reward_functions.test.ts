// tier: all (many jails)
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { LIBRARY } from "../../src/lib/rewards/library.ts";
import { type TestApp, testApp } from "../harness.ts";

const PATH = "/v1/reward_functions";
const PAGE = readFileSync(resolve(import.meta.dir, "../../docs/rewards.md"), "utf8");

let app: TestApp;
beforeAll(() => {
  app = testApp({ flags: { "sandbox.sample_timeout_ms": 2_000 } });
});
afterAll(() => app.close().then(app.remove));

describe("errors of code are reported at the upload", () => {
  test.each([
    ["py", "def reward(completions, **kwargs)\n    return []\n", "syntax", 1, 34],
    ["py", "import re\n\ndef reward(foo):\n    return 1\n", "signature", 3, 1],
    ["py", "def reward(completion):\n    return 1\n\nx = 1 / 0\n", "exception", 4, 5],
    ["py", "import numpy\ndef reward(completion): return 1\n", "exception", 1, 1],
    ["ts", "export function reward({ completions }: { completions: string[] }) {\n  return [;\n}\n", "syntax", 2, 11],
    ["ts", "export const reward = (x: number) => x;\n", "signature", 1, 1],
  ])("%s %j: %s", async (extension, source, code, line, column) => {
    const form = new FormData();
    form.set("name", "wrong");
    form.set("file", new Blob([source]), `wrong.${extension}`);
    const { status, body } = await app.call("POST", PATH, undefined, { raw: form });
    expect([status, body.status]).toEqual([201, "invalid"]);
    expect(body.error).toMatchObject({ code, line, column });
  });

  test("endless code is reported at the upload too, within its time limit", async () => {
    const source = "def reward(completion): return 1\nwhile True: pass\n";
    const hurried = testApp({ flags: { "sandbox.batch_timeout_ms": 1_000 } });
    const run = await hurried.call("POST", `${PATH}/run`, { source, rows: [{ completion: "x" }] });
    expect(run).toMatchObject({ status: 422, body: { error: { code: "reward_invalid", param: "/source" } } });
    await hurried.close().then(hurried.remove);
  }, 120_000);
});

test("a run reports the result of each sample, and continues", async () => {
  const source = `def reward(completion, answer):
    print("saw", completion)
    if completion == "none": return None
    if completion == "nan": return float("nan")
    if completion == "text": return "1"
    if completion == "raise": raise ValueError("no")
    while completion == "loop": pass
    return float(completion == answer)
`;
  const completions = ["right", "wrong", "none", "nan", "text", "raise", "loop", "right"];
  const rows = completions.map((completion) => ({ prompt: "p", completion, answer: "right" }));
  const { status, body } = await app.call("POST", `${PATH}/run`, { source, rows });
  expect(status).toBe(200);
  const told = body.results.map(
    (each: { reward: number | null; error: { kind: string } | null }) => each.error?.kind ?? each.reward,
  );
  expect(told).toEqual([1, 0, null, "not_finite", "not_a_number", "exception", "timeout", 1]);
  expect(body.results[5].error).toMatchObject({ line: 6, message: "ValueError: no", reward: "reward" });
  expect(body.summary).toMatchObject({ count: 8, scored: 3, min: 0, max: 1 });
  expect(body.summary.faults).toEqual({ none: 1, not_finite: 1, not_a_number: 1, exception: 1, timeout: 1 });
  expect(body.stdout).toContain("saw right\n");
}, 120_000);

test("a seed gives the same numbers again, and another seed gives others", async () => {
  for (const source of [
    "import random\ndef reward(completion): return random.random()",
    "export const reward = ({ completion }) => Math.random() + 0 * completion.length;",
  ]) {
    const roll = async (seed: number) =>
      (await app.call("POST", `${PATH}/run`, { source, seed, rows: [{ completion: "x" }] })).body.results[0].reward;
    const [first, again, other] = [await roll(1), await roll(1), await roll(2)];
    expect(first).toBe(again);
    expect(first).not.toBe(other);
  }
}, 120_000);

test("ten thousand rows are one run", async () => {
  const rows = Array.from({ length: 10_000 }, (_, i) => ({ completion: "x".repeat(i % 100) }));
  const source = "def reward(completions, **kwargs): return [len(text) for text in completions]";
  const { status, body } = await app.call("POST", `${PATH}/run`, { source, rows });
  expect([status, body.summary.scored]).toEqual([200, 10_000]);
  expect(body.summary.mean).toBeCloseTo(49.5);
  expect(body.results[9_999]).toMatchObject({ index: 9_999, reward: 99 });
}, 120_000);

test("the request of docs/rewards.md gets the answer on the page", async () => {
  const source = /^```python accuracy\.py\n([\s\S]*?)^```$/m.exec(PAGE)?.[1];
  const request = /^```json run\n([\s\S]*?)^```$/m.exec(PAGE)?.[1] ?? "";
  await app.call("POST", PATH, { name: "accuracy", source });
  const { status, body } = await app.call("POST", `${PATH}/run`, JSON.parse(request));
  expect(status).toBe(200);
  expect(body.results[0]).toMatchObject({ reward: 2, sub_rewards: { accuracy: 1, length_penalty: 0 }, error: null });
}, 120_000);

test("the page lists every built-in reward and every param", () => {
  for (const [name, { params }] of Object.entries(LIBRARY)) {
    const line = PAGE.split("\n").find((each) => each.startsWith(`| \`${name}\``)) ?? "";
    for (const param of Object.keys(params.unwrap().shape)) expect(line).toContain(`\`${param}\``);
  }
});

test("numbers of a row reach Python as they were written", async () => {
  const row = '{"completion": "x", "whole": 9007199254740993, "point": 1.0, "digits": [3.10, -0.0], "huge": 1e400}';
  const source = `
def reward(row):
    return float([row["whole"], str(row["point"]), str(row["digits"]), row["huge"]]
        == [9007199254740993, "1.0", "[3.1, -0.0]", float("inf")])
`;
  const raw = `{"source": ${JSON.stringify(source)}, "seed": 1, "rows": [${row}]}`;
  const { body } = await app.call("POST", `${PATH}/run`, undefined, {
    raw,
    headers: { "content-type": "application/json" },
  });
  expect(body.results).toMatchObject([{ reward: 1, error: null }]);
});

test("the memory that the operator allows is available, also gigabytes", async () => {
  const roomy = testApp({ flags: { "sandbox.memory_mib": 2048 } });
  const sources = [
    "def reward(completion):\n    return len(bytearray(300 << 20)) / 2**20\n",
    "export const reward = ({ completion }) => new Uint8Array(300 << 20).length / 2 ** 20;",
  ];
  for (const source of sources) {
    const { body } = await roomy.call("POST", `${PATH}/run`, { source, rows: [{ completion: "x" }] });
    expect(body.results).toMatchObject([{ reward: 300, error: null }]);
  }
  await roomy.close().then(roomy.remove);
}, 120_000);
