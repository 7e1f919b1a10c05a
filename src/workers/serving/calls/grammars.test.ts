import { describe, expect, test } from "bun:test";
import { FORMATS } from "../../../../test/serving/call_cases.ts";
import { parseGbnf, sentence } from "../../../../test/serving/gbnf.ts";
import { ChatCompletionRequest } from "../../../lib/chat/chat_completion.ts";
import { plainTools } from "../../../lib/chat/tools.ts";
import { type ThoughtTags, thoughtTags } from "../parts/thoughts.ts";
import { planAnswer, type Thoughts } from "../tools.ts";
import type { CallFormat } from "./format.ts";

const TOOLS = [
  {
    type: "function",
    function: {
      name: "add",
      parameters: {
        type: "object",
        properties: {
          a: { type: "integer" },
          unit: { enum: ["m", "ft"] },
          note: { type: "string" },
          all: { type: "array", items: { type: "boolean" } },
        },
        required: ["a", "unit"],
      },
    },
  },
  { type: "function", function: { name: "now" } },
];

function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

const request = (fields: object) => {
  const sent = { model: "m", messages: [{ role: "user", content: "x" }], tools: TOOLS, ...fields };
  const parsed = ChatCompletionRequest.parse(sent);
  return { ...parsed, ...plainTools(parsed.tools, parsed.tool_choice) };
};

/** Sentences of the grammar of a plan, read by the parser of that plan. */
function read(format: CallFormat, fields: object, thoughts?: Thoughts) {
  const plan = planAnswer(request(fields), format, thoughts);
  const rules = parseGbnf(plan.grammar as string);
  const random = randomFrom(7);
  return Array.from({ length: 12 }, () => {
    const text = sentence(rules, random);
    const parser = plan.newParser?.();
    const parts = parser ? [parser.push(text), parser.end()] : [];
    return {
      text,
      content: parts.map((part) => part.content).join(""),
      calls: parts.flatMap((part) => part.calls).map(({ name, arguments: args }) => [name, JSON.parse(args)] as const),
    };
  });
}

describe.each(Object.keys(FORMATS))("%s", (name) => {
  const format = FORMATS[name] as CallFormat;

  test("required calls are read as calls and have the arguments of the schema", () => {
    for (const { text, content, calls } of read(format, { tool_choice: "required" })) {
      expect([text, content.trim(), calls.length > 0]).toEqual([text, "", true]);
      for (const [called, args] of calls) {
        if (called === "now") expect([text, args]).toEqual([text, {}]);
        else {
          expect([text, called, Number.isInteger(args.a), ["m", "ft"].includes(args.unit)]).toEqual([
            text,
            "add",
            true,
            true,
          ]);
          expect(Object.keys(args).filter((key) => !["a", "unit", "note", "all"].includes(key))).toEqual([]);
          expect([text, ["undefined", "string"].includes(typeof args.note)]).toEqual([text, true]);
        }
      }
    }
  });

  test("one named function is called once", () => {
    const choice = { tool_choice: { type: "function", function: { name: "now" } } };
    for (const { calls } of read(format, choice)) expect(calls).toEqual([["now", {}]]);
  });
});

test("a call comes behind the thoughts of a model that thinks", () => {
  const tags = thoughtTags("</think>") as ThoughtTags;
  const format = FORMATS["mistral-args"] as CallFormat;
  const plan = (state: Thoughts["state"]) => planAnswer(request({ tool_choice: "required" }), format, { tags, state });
  expect([plan("behind").opening, plan("inside").opening]).toEqual(["[TOOL_CALLS]", ""]);
  const inside = sentence(parseGbnf(plan("inside").grammar as string), randomFrom(3));
  expect(inside).toMatch(/^[\s\S]*<\/think>[ \n]{0,2}\[TOOL_CALLS\]/);
  const texts = [1, 2, 3, 4, 5, 6].map((seed) =>
    sentence(parseGbnf(plan("before").grammar as string), randomFrom(seed * 97)),
  );
  for (const text of texts) expect(text).toMatch(/^(<think>[\s\S]*<\/think>[ \n]{0,2})?\[TOOL_CALLS\]/);
});

test("an answer in a schema stands where the model's format has it", () => {
  const fields = { tools: [], response_format: { type: "json_object" } };
  for (const name of ["harmony", "functionary-3.2"])
    for (const { content } of read(FORMATS[name] as CallFormat, fields)) expect(JSON.parse(content)).toBeObject();
});
