import { describe, expect, test } from "bun:test";
import { createLineReader, RowError } from "./lines.ts";
import { detectShape, type Shape, suggestedMap } from "./shape.ts";
import { createShaping, describeDetected, type ShapeOptions } from "./shaping.ts";

const PLAIN: ShapeOptions = { map: {}, cells: false };

function read(rows: readonly object[], options: Partial<ShapeOptions> = {}) {
  const shaping = createShaping({ ...PLAIN, ...options });
  const { first, visit, hint } = shaping;
  const reader = createLineReader({ maxRowBytes: 1 << 20, format: options.format, first, visit, hint });
  const bytes = new TextEncoder().encode(rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  const pieces = [...reader.push(bytes), ...reader.end()].map(({ body }) => new TextDecoder().decode(body)).join("");
  return {
    shape: shaping.shape,
    format: reader.format,
    rows: pieces
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line)),
  };
}
function refusal(rows: readonly object[], options: Partial<ShapeOptions> = {}): string {
  try {
    read(rows, options);
  } catch (error) {
    if (error instanceof RowError) return error.message;
    throw error;
  }
  return "taken";
}
const user = (content: string) => ({ role: "user", content });
const assistant = (content: string) => ({ role: "assistant", content });

describe("a shape", () => {
  const sharegpt = {
    id: 7,
    system: "Be brief.",
    conversations: [
      { from: "human", value: "Hi" },
      { from: "gpt", value: "Hello", weight: 1 },
    ],
  };
  const cases: [Shape, object, object][] = [
    ["chat", { messages: [user("a"), assistant("b")] }, { messages: [user("a"), assistant("b")] }],
    [
      "sharegpt",
      sharegpt,
      {
        messages: [{ role: "system", content: "Be brief." }, user("Hi"), { ...assistant("Hello"), weight: 1 }],
        id: 7,
      },
    ],
    ["sharegpt", { conversation: [user("a"), assistant("b")] }, { messages: [user("a"), assistant("b")] }],
    ["sharegpt", { messages: [{ from: "user", value: "a" }] }, { messages: [user("a")] }],
    [
      "sharegpt",
      {
        conversations: [
          { from: "human", value: "Add" },
          { from: "function_call", value: '{"name":"add","arguments":{"a":1}}' },
          { from: "observation", value: "2" },
        ],
        tools: "[]",
      },
      {
        messages: [
          user("Add"),
          {
            role: "assistant",
            content: null,
            tool_calls: [{ type: "function", function: { name: "add", arguments: '{"a":1}' } }],
          },
          { role: "tool", content: "2" },
        ],
        tools: "[]",
      },
    ],
    [
      "alpaca",
      { instruction: "Add", input: "", output: "2", topic: "x" },
      { prompt: "Add", completion: "2", topic: "x" },
    ],
    ["alpaca", { instruction: "Add", input: "1 1", output: "2" }, { prompt: "Add\n\n1 1", completion: "2" }],
    [
      "alpaca",
      { instruction: "Add", output: "2", system: "s", history: [["q", "a"]] },
      { prompt: [{ role: "system", content: "s" }, user("q"), assistant("a"), user("Add")], completion: "2" },
    ],
    ["completion", { prompt: "a", completion: "b", label: true }, { prompt: "a", completion: "b", label: true }],
    ["preference", { prompt: "a", chosen: "b", rejected: "c" }, { prompt: "a", chosen: "b", rejected: "c" }],
    [
      "implicit_preference",
      { chosen: [user("a"), assistant("b")], rejected: [user("a"), assistant("c")], score: 1 },
      { prompt: [user("a")], chosen: [assistant("b")], rejected: [assistant("c")], score: 1 },
    ],
    [
      "implicit_preference",
      {
        prompt: "a",
        chosen: [user("a"), assistant("b")],
        rejected: [user("a"), assistant("c")],
        messages: [user("a")],
      },
      { prompt: [user("a")], chosen: [assistant("b")], rejected: [assistant("c")], messages: [user("a")] },
    ],
    [
      "implicit_preference",
      { chosen: "The sky is blue.", rejected: "The sky is black." },
      { prompt: "The sky is", chosen: " blue.", rejected: " black." },
    ],
    ["prompt", { prompt: "a", answer: 4 }, { prompt: "a", answer: 4 }],
  ];
  test.each(cases)("%s is recognized and converted (%#)", (shape, given, stored) => {
    const found = read([given]);
    expect(found.shape).toBe(shape);
    expect(found.rows).toEqual([stored]);
  });

  test("is chosen by all first rows: one that does not fit leaves the others", () => {
    const rows = [
      { prompt: "a", instruction: "b", output: "c" },
      { prompt: "a", instruction: "b" },
    ];
    expect(detectShape(rows)).toEqual({ type: "found", shape: "prompt" });
  });

  test("that is ambiguous is a question with its options; a shape or a format answers it", () => {
    const both = { prompt: "a", instruction: "b", output: "c" };
    expect(refusal([both])).toBe(
      "Line 1: the rows fit 2 shapes: Prompts (prompt) and Alpaca (instruction, input, output). Choose one with `shape`: prompt or alpaca",
    );
    expect(read([both], { shape: "prompt" }).rows).toEqual([both]);
    expect(read([both], { format: "prompt" }).rows).toEqual([both]);
    expect(refusal([both], { shape: "alpaca" })).toBe("taken");
    expect(refusal([{ messages: [user("a")], conversations: [user("a")] }])).toContain("`shape`: chat or sharegpt");
  });

  test("that is unknown lists the columns and the map that would do", () => {
    expect(refusal([{ question: "a", Answer: "b" }])).toBe(
      "Line 1: prompt is missing. Every row of the format prompt has prompt, a string or a list of messages. The columns are question, Answer. Name the fields with `map`, for example question=prompt,Answer=completion",
    );
    expect(suggestedMap(["x", "y"])).toBeUndefined();
    expect(refusal([{ x: "a" }])).toEndWith("for example x=prompt");
  });

  test("keeps numbers digit for digit while it is converted", () => {
    const shaping = createShaping(PLAIN);
    const text = '{"instruction":"a","output":"b","n":1.50,"id":12345678901234567890}';
    shaping.first([JSON.parse(text)]);
    const converted = shaping.visit(JSON.parse(text), text, 1);
    expect(converted).toBe('{"prompt":"a","completion":"b","n":1.50,"id":12345678901234567890}');
  });

  test("of a later row that differs is refused with its line", () => {
    const good = { instruction: "a", output: "b" };
    const many = Array.from({ length: 30 }, () => good);
    expect(refusal([...many, { instruction: "a" }])).toBe("Line 31: output must be a string, not missing");
    expect(refusal([...many, { ...good, history: [["x"]] }])).toContain("Line 31: history[0] must be a question");
    expect(refusal([{ chosen: "a b", rejected: "c d" }])).toContain("do not have the same beginning");
    const talk = (from: string) => ({
      conversations: [
        { from: "human", value: "x" },
        { from, value: "y" },
      ],
    });
    expect(refusal([talk("gpt"), talk("asistant")])).toStartWith(
      'Line 2: messages[1].role is "asistant", but must be one of',
    );
  });
});

describe("a map", () => {
  test("names the fields, and other columns stay", () => {
    const found = read([{ question: "a", answer: "b", topic: "x" }], {
      map: { question: "prompt", answer: "completion" },
    });
    expect(found).toMatchObject({ shape: "completion", format: "completion" });
    expect(found.rows).toEqual([{ prompt: "a", completion: "b", topic: "x" }]);
    const dolly = { instruction: "a", context: "c", response: "b" };
    expect(read([dolly], { map: { context: "input", response: "output" } }).rows).toEqual([
      { prompt: "a\n\nc", completion: "b" },
    ]);
  });

  test.each([
    [
      { questin: "prompt" },
      '`map` names the column "questin", which the first rows do not have. Did you mean question?',
    ],
    [{ zzzz: "prompt" }, "The columns are question, prompt"],
    [{ question: "prompt" }, "two columns would be named prompt"],
  ])("%j is refused", (map, message) => {
    expect(refusal([{ question: "a", prompt: "b" }], { map })).toContain(message);
  });
});

test("cells hold messages as JSON and labels as words; other cells stay text", () => {
  const row = { prompt: '[{"role":"user","content":"a"}]', completion: "[1]", label: "True", zip: "00501" };
  expect(read([row], { cells: true }).rows).toEqual([
    { prompt: [user("a")], completion: "[1]", label: true, zip: "00501" },
  ]);
});

test("the summary names shape, file, rows and fields", () => {
  expect(describeDetected("jsonl", "alpaca", 52_002).summary).toBe("Alpaca, 52,002 rows → prompt/completion");
  expect(describeDetected("csv", "sharegpt", 1).summary).toBe("ShareGPT in CSV, 1 row → messages");
});
