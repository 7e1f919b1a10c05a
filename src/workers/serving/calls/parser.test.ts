import { describe, expect, test } from "bun:test";
import { CASES, FORMATS, type Row } from "../../../../test/serving/call_cases.ts";
import type { Tool } from "../../../lib/chat/messages.ts";
import type { CallFormat } from "./format.ts";
import { formatOf, HERMES } from "./formats.ts";
import { createCallParser } from "./parser.ts";
import type { Parsed } from "./sink.ts";

const tool = (name: string, properties: Record<string, unknown>): Tool => ({
  type: "function",
  function: { name, parameters: { type: "object", properties } },
});
const TOOLS = [
  tool("add", { a: { type: "integer" }, b: { type: "integer" } }),
  tool("say", { text: { type: "string" }, to: { type: ["string", "null"] } }),
  tool("now", {}),
  tool("python", { code: { type: "string" } }),
];

/** Parses these pieces and joins the pieces of each call. */
function parsed(format: CallFormat, pieces: readonly string[], streamed: boolean): Required<Parsed> {
  const parser = createCallParser(format.reader(TOOLS), streamed);
  const out = { content: "", thoughts: "", calls: [] as { name: string; arguments: string }[] };
  for (const part of [...pieces.map((piece) => parser.push(piece)), parser.end()]) {
    out.content += part.content;
    out.thoughts += part.thoughts ?? "";
    for (const { name, arguments: text } of part.calls)
      if (name === undefined) (out.calls.at(-1) as { arguments: string }).arguments += text;
      else out.calls.push({ name, arguments: text });
  }
  return out;
}

const cut = (text: string, size: number) => {
  const chars = [...text];
  return Array.from({ length: Math.ceil(chars.length / size) }, (_, i) =>
    chars.slice(i * size, (i + 1) * size).join(""),
  );
};

/** Every split into pieces gives the same, also where the calls are passed on in pieces. */
function inAnyPieces(format: CallFormat, [, text, content, calls, thoughts = ""]: Row) {
  const expected = { content, thoughts, calls };
  for (const streamed of [false, true])
    for (let size = 1; size <= text.length + 1; size++) {
      const found = parsed(format, cut(text, size), streamed);
      const shown = found.calls.map(({ name, arguments: args = "" }) => [name as string, JSON.parse(args)]);
      expect<unknown>({ ...found, calls: shown }).toEqual(expected);
    }
}

test("each family is recognised by its template", () => {
  for (const [name, format] of Object.entries(FORMATS)) expect(format.name).toBe(name);
  expect(formatOf("{{ messages }}")).toBeUndefined();
});

describe.each(Object.keys(FORMATS))("%s", (name) => {
  const format = FORMATS[name] as CallFormat;
  for (const row of CASES[name] as Row[]) test(row[0], () => inAnyPieces(format, row));

  test("no beginning of a text crashes the parser or loses a letter of it", () => {
    for (const [, text] of CASES[name] as Row[])
      for (let length = 0; length < text.length; length++) {
        const { content, thoughts, calls } = parsed(format, cut(text.slice(0, length), 3), false);
        if (calls.length === 0 && thoughts === "" && name !== "functionary-3.2" && !format.always)
          expect(content).toBe(text.slice(0, length));
      }
  });
});

test("text before a call is passed on at once", () => {
  expect(createCallParser(HERMES.reader([]), true).push("hello <b").content).toBe("hello <b");
  expect(createCallParser(HERMES.reader([]), true).push("hello <to").content).toBe("hello ");
  const bare = () => createCallParser((FORMATS["llama"] as CallFormat).reader(TOOLS), true);
  expect([bare().push('{"ci').content, bare().push("Hello").content, bare().push('{"na').content]).toEqual([
    '{"ci',
    "Hello",
    "",
  ]);
});

test.each([
  ["hermes", '<tool_call>{"name": "say", "arguments": {"text": "one two three"}}</tool_call>'],
  ["qwen-coder", "<tool_call><function=say><parameter=text>\none two three\n</parameter></function></tool_call>"],
  ["gemma", '<|tool_call>call:say{text:<|"|>one two three<|"|>}<tool_call|>'],
  ["harmony", '<|channel|>commentary to=functions.say<|message|>{"text": "one two three"}'],
  ["llama", '{"name": "say", "parameters": {"text": "one two three"}}'],
])("%s: the name of a call comes first and its arguments as they are written", (name, text) => {
  const parser = createCallParser((FORMATS[name] as CallFormat).reader(TOOLS), true);
  const pieces = [...[...text].map((char) => parser.push(char)), parser.end()].flatMap((part) => part.calls);
  expect(pieces[0]).toEqual({ name: "say", arguments: "" });
  expect(pieces.filter((piece) => piece.arguments !== "").length).toBeGreaterThan(10);
  expect(JSON.parse(pieces.map((piece) => piece.arguments).join(""))).toEqual({ text: "one two three" });
});
