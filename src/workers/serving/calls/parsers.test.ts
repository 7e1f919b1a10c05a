import { describe, expect, test } from "bun:test";
import { type CallParser, createArrayParser, createObjectParser, createTagParser, type Parsed } from "./parsers.ts";

const ADD = { name: "add", arguments: '{"a":1}' };

/** Parses in pieces of `size` characters. */
function parsed(parser: CallParser, text: string, size: number): Parsed {
  const out: Parsed = { content: "", calls: [] };
  const add = ({ content, calls }: Parsed) => {
    out.content += content;
    out.calls.push(...calls);
  };
  for (let at = 0; at < text.length; at += size) add(parser.push(text.slice(at, at + size)));
  add(parser.end());
  return out;
}

function inAnyPieces(make: () => CallParser, text: string, expected: Parsed) {
  for (let size = 1; size <= text.length + 1; size++) expect(parsed(make(), text, size)).toEqual(expected);
}

describe("tags", () => {
  const call = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>';
  test.each<[string, string, Parsed]>([
    ["no call", "just <text> and a <tool", { content: "just <text> and a <tool", calls: [] }],
    ["a call", call, { content: "", calls: [ADD] }],
    ["text before it", `Well: ${call}`, { content: "Well: ", calls: [ADD] }],
    ["two calls on two lines", `${call}\n${call}\n`, { content: "", calls: [ADD, ADD] }],
    ["a call without an end tag", call.replace("</tool_call>", ""), { content: "", calls: [ADD] }],
    [
      "arguments as text",
      '<tool_call>{"name":"add","arguments":"{\\"a\\":1}"}</tool_call>',
      { content: "", calls: [ADD] },
    ],
    [
      "parameters instead of arguments",
      '<tool_call>{"name":"add","parameters":{"a":1}}</tool_call>',
      { content: "", calls: [ADD] },
    ],
    ["no name", "<tool_call>{}</tool_call>", { content: "<tool_call>{}</tool_call>", calls: [] }],
    [
      "arguments that are no object",
      '<tool_call>{"name":"f","arguments":[1]}</tool_call>',
      { content: '<tool_call>{"name":"f","arguments":[1]}</tool_call>', calls: [] },
    ],
    [
      "a bad call between good ones",
      `${call}<tool_call>x</tool_call>${call}`,
      { content: "<tool_call>x</tool_call>", calls: [ADD, ADD] },
    ],
    [
      "a call cut short",
      '<tool_call>{"name": "add", "argu',
      { content: '<tool_call>{"name": "add", "argu', calls: [] },
    ],
  ])("%s", (_name, text, expected) => inAnyPieces(createTagParser, text, expected));

  test("text before a call is passed on at once", () => {
    expect(createTagParser().push("hello <b").content).toBe("hello <b");
    expect(createTagParser().push("hello <to").content).toBe("hello ");
  });
});

describe("a bare object", () => {
  const make = () => createObjectParser(["add"]);
  const call = '{"name": "add", "parameters": {"a": 1}}';
  test.each<[string, string, Parsed]>([
    ["text", "No {call} here", { content: "No {call} here", calls: [] }],
    ["a call", call, { content: "", calls: [ADD] }],
    ["behind its tag", `<|python_tag|>${call}`, { content: "", calls: [ADD] }],
    ["several", `${call}; ${call}`, { content: "", calls: [ADD, ADD] }],
    ["with its type first", `{"type": "function", ${call.slice(1)}`, { content: "", calls: [ADD] }],
    [
      "braces in a string",
      '{"name": "add", "parameters": {"a": "}{"}}',
      { content: "", calls: [{ name: "add", arguments: '{"a":"}{"}' }] },
    ],
    [
      "a function that was not offered",
      '{"name": "rm", "parameters": {}}',
      { content: '{"name": "rm", "parameters": {}}', calls: [] },
    ],
    ["another object", '{"city": "Bern", "name": "add"}', { content: '{"city": "Bern", "name": "add"}', calls: [] }],
    ["a call with text behind it", `${call} done`, { content: `${call} done`, calls: [] }],
  ])("%s", (_name, text, expected) => inAnyPieces(make, text, expected));

  test("an answer that is no call is passed on as soon as that is clear", () => {
    const parser = make();
    expect(parser.push('{"ci').content).toBe('{"ci');
    expect(make().push("Hello").content).toBe("Hello");
    expect(make().push('{"na').content).toBe("");
  });
});

describe("an array", () => {
  const call = '[{"name": "add", "arguments": {"a": 1}}]';
  test.each<[string, string, Parsed]>([
    ["text", "[1] is a footnote", { content: "[1] is a footnote", calls: [] }],
    ["a call behind its marker", `[TOOL_CALLS]${call}`, { content: "", calls: [ADD] }],
    ["a call whose marker is invisible", call, { content: "", calls: [ADD] }],
    ["text before the marker", `Sure. [TOOL_CALLS] ${call}`, { content: "Sure. ", calls: [ADD] }],
    ["a list of other things", '[{"name": 5}]', { content: '[{"name": 5}]', calls: [] }],
    ["nothing", "", { content: "", calls: [] }],
  ])("%s", (_name, text, expected) => inAnyPieces(() => createArrayParser(false), text, expected));

  test("a required call begins inside", () =>
    inAnyPieces(() => createArrayParser(true), call, { content: "", calls: [ADD] }));
});

test("in pieces, the name of a call comes first and its arguments as they are written", () => {
  const parser = createTagParser(true);
  const text =
    'a <tool_call>\n{"name": "f", "arguments": {"x": "}{\\"", "y": [1]}}\n</tool_call>\n<tool_call>{"name":"g","arguments":{}}</tool_call>';
  const parts = [...[...text].map((char) => parser.push(char)), parser.end()];
  expect(parts.map(({ content }) => content).join("")).toBe("a ");
  const calls: { name: string; arguments: string }[] = [];
  let pieces = 0;
  for (const { name, arguments: piece } of parts.flatMap((part) => part.calls)) {
    if (name === undefined) pieces++;
    if (name === undefined) (calls.at(-1) as { arguments: string }).arguments += piece;
    else calls.push({ name, arguments: piece });
  }
  expect(calls).toEqual([
    { name: "f", arguments: '{"x": "}{\\"", "y": [1]}' },
    { name: "g", arguments: "{}" },
  ]);
  expect(pieces).toBeGreaterThan(20);
});
