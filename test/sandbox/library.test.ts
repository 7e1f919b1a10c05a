// tier: all (many jails)
/** The ready rewards, inside plain Pyodide, through the harness. */
import { beforeAll, describe, expect, test } from "bun:test";
import { LIBRARY } from "../../src/lib/rewards/library.ts";
import { cpuMsOf } from "../cost.ts";
import { openPlainPython, type Row } from "./plain_python.ts";

let python: Awaited<ReturnType<typeof openPlainPython>>;
beforeAll(async () => {
  python = await openPlainPython();
}, 60_000);

const score = (name: string, rows: Row[], params: Row = {}) => python.score(LIBRARY[name]!.source, rows, { params });

test("every built-in reward loads, has one function named reward, and accepts its defaults", () => {
  for (const [name, { source, params, description }] of Object.entries(LIBRARY)) {
    const loaded = python.load(source, { params: params.parse({}) as Row });
    expect([name, loaded.entrypoints?.map((e) => e.name)]).toEqual([name, ["reward"]]);
    expect(description).not.toBe("");
    expect(params.safeParse({ nonsense: 1 }).success).toBe(false);
  }
});

test("a chat is scored by its last assistant message", () => {
  const chat = [
    { role: "assistant", content: "41" },
    { role: "user", content: "sure?" },
    {
      role: "assistant",
      content: [
        { type: "text", text: "4" },
        { type: "text", text: "2" },
      ],
    },
  ];
  expect(
    score("exact_match", [
      { completion: chat, answer: "42" },
      { completion: [], answer: "42" },
    ]),
  ).toEqual([1, 0]);
});

test("a missing column is named", () => {
  expect(() => score("exact_match", [{ completion: "a", solution: "a" }])).toThrow(/no column 'answer'.*solution/);
});

describe("exact_match", () => {
  // biome-ignore format: a table should look like one
  test.each([
    [" 42\n", "42", {}, 1],
    ["42.", "42", {}, 0],
    ["Paris", "paris", {}, 0],
    ["Paris", "paris", { ignore_case: true }, 1],
    ["a  b\nc", "a b c", { collapse_spaces: true }, 1],
    ["b", ["a", "b"], {}, 1],
    ["42", 42, {}, 1],
    ["x", null, {}, "none"],
  ])("%j against %j with %j is %p", (completion, answer, params, expected) => {
    expect(score("exact_match", [{ completion, answer }], params)).toEqual([expected]);
  });
  test("the column can have another name", () => {
    expect(score("exact_match", [{ completion: "a", gold: "a" }], { column: "gold" })).toEqual([1]);
  });
});

describe("regex_match", () => {
  test("the pattern is the parameter's, or the row's", () => {
    expect(score("regex_match", [{ completion: "abc 12" }, { completion: "abc" }], { pattern: "\\d+" })).toEqual([
      1, 0,
    ]);
    const rows = [
      { completion: "A1", pattern: "a\\d" },
      { completion: "b", pattern: "^b$" },
      { completion: "", pattern: null },
    ];
    expect(score("regex_match", rows, { pattern: "never", flags: "i" })).toEqual([1, 1, "none"]);
  });
  test("full means the whole text", () => {
    expect(
      score("regex_match", [{ completion: "12 " }, { completion: "a12" }], { pattern: "\\d+", full: true }),
    ).toEqual([1, 0]);
  });
  test("a missing pattern and a bad one are reported", () => {
    expect(() => score("regex_match", [{ completion: "a" }])).toThrow(/parameter `pattern`/);
    expect(() => score("regex_match", [{ completion: "a" }], { pattern: "(" })).toThrow(/missing \)/);
  });
});

describe("json_valid", () => {
  // biome-ignore format: a table should look like one
  test.each([
    ['{"a": [1, 2]}', {}, 1],
    ['Here:\n```json\n{"a": 1}\n```\nDone.', {}, 1],
    ['```\n1\n```\n```\n2\n```', {}, 0],
    ['```json\n{"a": 1}\n```', { fenced: false }, 0],
    ["{'a': 1}", {}, 0],
    ["NaN", {}, 0],
    ["", {}, 0],
    ["[1]", { type: "object" }, 0],
    ["true", { type: "number" }, 0],
  ])("%j with %j is %p", (completion, params, expected) => {
    expect(score("json_valid", [{ completion: completion.slice(0, 200_000) }], params)).toEqual([expected]);
  });
});

test("JSON with endless nesting is no JSON, and brackets inside texts are not counted", () => {
  const completions = ["[".repeat(100_000), `["${"[".repeat(1000)}"]`, `${"[".repeat(100)}${"]".repeat(100)}`];
  const rows = completions.map((completion) => ({ completion, schema: { items: { $ref: "#" } } }));
  expect(score("json_valid", rows)).toEqual([0, 1, 1]);
  expect(score("json_schema", rows)).toEqual([0, 1, 1]);
});

describe("numeric_answer", () => {
  // biome-ignore format: a table should look like one
  test.each([
    ["First 3, then 4.", "4", {}, 1],
    ["so 12 * 7 = 84", 84, {}, 1],
    ["It is 1,234.50 dollars", "1234.5", {}, 1],
    ["<answer>7</answer> or 8", "7", {}, 1],
    ["\\boxed{\\frac{1}{2}} and 9", 0.5, {}, 1],
    ["\\boxed{\\text{about } {5}}", "5", {}, 1],
    ["work #### 72", "because 9 * 8 = 72\n#### 72", {}, 1],
    ["3/4", "0.75", {}, 1],
    ["−5", "-5", {}, 1],
    ["2e-3", 0.002, {}, 1],
    ["50%", "0.5", {}, 1],
    ["50%", "50", {}, 1],
    ["50", "50%", {}, 1],
    ["0.5", "50\\%", {}, 1],
    ["1%", 1, {}, 1],
    ["5%", "50%", {}, 0],
    ["\\boxed{\\frac12}", 0.5, {}, 1],
    ["\\boxed{1{,}234}", 1234, {}, 1],
    ["\\boxed{5\\text{ cm}^2}", 5, {}, 1],
    ["\\boxed{5\\text{ cm}^{2}}", 2, {}, 0],
    ["12 m^2", 12, {}, 1],
    ["2 \\times 10^{-3}", 0.002, {}, 1],
    ["about 1,500 x 10^3", 1500000, {}, 1],
    ["10^6", 1000000, {}, 1],
    ["5^2", 25, {}, 0],
    ["2.5", 2.5042, {}, 0],
    ["2.5", 2.5042, { absolute: 0.01 }, 1],
    ["2.5", 2.5042, { relative: 0.01 }, 1],
    ["there is none", 1, {}, 0],
    ["the answer is 5", 5, { where: "boxed" }, 0],
    ["1/0", 1, {}, 0],
    ["1e999", 1, {}, 0],
    ["100000000000000000001", "100000000000000000000", { relative: 0 }, 0],
    ["4", null, {}, "none"],
  ])("%j against %j with %j is %p", (completion, answer, params, expected) => {
    expect(score("numeric_answer", [{ completion, answer }], params)).toEqual([expected]);
  });
});

test("texts that look equal are equal in every Unicode composition", () => {
  const rows = [{ completion: "caf\u00e9", answer: "cafe\u0301" }];
  expect([score("exact_match", rows), score("exact_match", rows, { ignore_case: true })]).toEqual([[1], [1]]);
  expect(score("exact_match", [{ completion: '["\u00e9"]', answer: [["\u00e9"]] }])).toEqual([1]);
});

test("JSON in a fence with Windows line ends, and unclosed quotes, are scored at once", async () => {
  expect(score("json_valid", [{ completion: '```json\r\n{"a": 1}\r\n```' }])).toEqual([1]);
  const quotes = [{ completion: `"${'\\"'.repeat(50_000)}` }];
  expect(await cpuMsOf(() => expect(score("json_valid", quotes)).toEqual([0]))).toBeLessThan(5_000);
});

test("a tag that is opened repeatedly is no answer, and takes no time", async () => {
  const tags = [{ completion: `${"<answer>".repeat(20_000)}${" ".repeat(20_000)}`, answer: 9 }];
  expect(await cpuMsOf(() => expect(score("numeric_answer", tags)).toEqual([0]))).toBeLessThan(5_000);
});

test("a number of thousands of digits is no answer", () => {
  expect(score("numeric_answer", [{ completion: "9".repeat(5000), answer: 9 }])).toEqual([0]);
});

describe("length_penalty", () => {
  test("is smooth between target and max, and below min", () => {
    const rows = [0, 50, 100, 150, 200, 300].map((n) => ({ completion: "x".repeat(n) }));
    const got = score("length_penalty", rows, { target: 100, max: 200, min: 100 }) as number[];
    expect(got.map((v) => Math.round(v * 1000) / 1000 + 0)).toEqual([-1, -0.5, 0, -0.5, -1, -1]);
  });
  test("words can be counted", () => {
    expect(score("length_penalty", [{ completion: "a b c" }], { unit: "words", target: 2, max: 2 })).toEqual([-1]);
  });
});

describe("think_format", () => {
  // biome-ignore format: a table should look like one
  test.each([
    ["<think>a</think> b", {}, 1],
    ["<think>a</think>", {}, 0],
    ["<think> </think> b", {}, 0],
    ["b <think>a</think> b", {}, 0],
    ["<think>a<think>b</think>c", {}, 0],
    ["<think>a</think>b</think>c", {}, 0],
    ["a</think> b", {}, 0],
    ["a</think> b", { opened: true }, 1],
    ["<think>a</think> b", { opened: true }, 0],
    ["<think>a</think><answer>b</answer>", { answer_tag: "answer" }, 1],
    ["<think>a</think><answer>b</answer> more", { answer_tag: "answer" }, 0],
    ["<think>a</think>", { partial: true }, 0.75],
    ["nothing", { partial: true }, 0],
    ["<plan>a</plan> b", { tag: "plan" }, 1],
  ])("%j with %j is %p", (completion, params, expected) => {
    expect(score("think_format", [{ completion }], params)).toEqual([expected]);
  });
});
