import { describe, expect, test } from "bun:test";
import { ChatCompletionRequest } from "./chat_completion.ts";
import { CompletionRequest, completionLimit } from "./completion.ts";
import { EmbeddingRequest } from "./embedding.ts";

const ASK = { model: "m", messages: [{ role: "user", content: "hi" }] };
const tool = { type: "function", function: { name: "add" } };

/** Returns the paths of all problems, the deepest first. */
function wrong(request: unknown): string[] {
  const { error } = ChatCompletionRequest.safeParse(request);
  type Issue = { path: PropertyKey[]; errors?: Issue[][] };
  const paths = (issue: Issue, above: PropertyKey[] = []): string[] => [
    [...above, ...issue.path].join("."),
    ...(issue.errors ?? []).flat().flatMap((inner) => paths(inner, [...above, ...issue.path])),
  ];
  return (error?.issues ?? []).flatMap((issue) => paths(issue as Issue)).sort((a, b) => b.length - a.length);
}

test("an absent or null field takes its default", () => {
  const plain = ChatCompletionRequest.parse(ASK);
  expect(plain).toMatchObject({ temperature: 1, top_p: 1, top_k: 0, n: 1, stream: false, stop: [], tools: [] });
  const names = [
    "temperature",
    "top_p",
    "n",
    "stop",
    "stream",
    "tools",
    "tool_choice",
    "response_format",
    "logit_bias",
  ];
  expect(ChatCompletionRequest.parse({ ...ASK, ...Object.fromEntries(names.map((name) => [name, null])) })).toEqual(
    plain,
  );
});

test("a parsed request parses to itself, so that it can be passed on", () => {
  const request = {
    ...ASK,
    stop: "x",
    tools: [tool],
    tool_choice: "required",
    logprobs: true,
    top_logprobs: 3,
    seed: 1,
  };
  const once = ChatCompletionRequest.parse(request);
  expect(ChatCompletionRequest.parse(JSON.parse(JSON.stringify(once)))).toEqual(once);
  const prompt = CompletionRequest.parse({ model: "m", prompt: [1, 2] });
  expect(CompletionRequest.parse(JSON.parse(JSON.stringify(prompt)))).toEqual(prompt);
});

test("unknown fields are dropped", () => {
  expect(ChatCompletionRequest.parse({ ...ASK, service_tier: "auto", safety_identifier: "x" })).toEqual(
    ChatCompletionRequest.parse(ASK),
  );
});

describe("the error names the wrong field", () => {
  test.each<[string, object, string]>([
    [
      "a sound",
      { messages: [{ role: "user", content: [{ type: "input_audio", input_audio: {} }] }] },
      "messages.0.content.0.type",
    ],
    [
      "an image of the system",
      { messages: [{ role: "system", content: [{ type: "image_url", image_url: { url: "data:," } }] }] },
      "messages.0.content.0.type",
    ],
    [
      "an image without a URL",
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: {} }] }] },
      "messages.0.content.0.image_url.url",
    ],
    ["an unknown role", { messages: [{ role: "robot", content: "x" }] }, "messages.0.role"],
    ["no messages", { messages: [] }, "messages"],
    ["a temperature beyond 2", { temperature: 2.1 }, "temperature"],
    ["too many answers", { n: 129 }, "n"],
    ["a bias beyond 100", { logit_bias: { "5": 101 } }, "logit_bias.5"],
    ["top_logprobs alone", { top_logprobs: 2 }, "top_logprobs"],
    ["a demanded call without tools", { tool_choice: "required" }, "tool_choice"],
    [
      "a demanded call of no tool",
      { tools: [tool], tool_choice: { type: "function", function: { name: "x" } } },
      "tool_choice.function.name",
    ],
    ["two tools of one name", { tools: [tool, tool] }, "tools.1.function.name"],
    ["an empty stop", { stop: [""] }, "stop.0"],
  ])("%s", (_name, change, path) => {
    expect(wrong({ ...ASK, ...change })).toContain(path);
  });
});

test("P11 role: a function message is a tool's result, and its call keeps its id", () => {
  const call = { name: "f", arguments: "{}" };
  const { messages } = ChatCompletionRequest.parse({
    ...ASK,
    messages: [
      { role: "assistant", content: null, function_call: call },
      { role: "function", name: "f", content: "2" },
    ],
  });
  expect(messages).toEqual([
    { role: "assistant", content: null, tool_calls: [{ id: "call_f", type: "function", function: call }] },
    { role: "tool", name: "f", content: "2", tool_call_id: "call_f" },
  ]);
});

test("P11 role: an unknown role is rejected with the nearest known role, or with all roles", () => {
  const wrongRole = (role: string) => wrong({ ...ASK, messages: [{ role, content: "x" }] });
  expect(wrongRole("assistnt")).toContain("messages.0.role");
  const message = (role: string) =>
    ChatCompletionRequest.safeParse({ ...ASK, messages: [{ role, content: "x" }] }).error?.issues[0]?.message;
  expect(message("assistnt")).toBe(
    '"assistnt" is not a role: use one of system, developer, user, assistant, tool, function. Did you mean assistant?',
  );
  expect(message("robot")).toBe('"robot" is not a role: use one of system, developer, user, assistant, tool, function');
});

test("completions take texts and tokens, one or many, also mixed", () => {
  for (const prompt of ["a", [1], ["a", "b"], [[1], [2, 3]], ["a", [1]]])
    expect(CompletionRequest.parse({ model: "m", prompt })).toMatchObject({ prompt });
  expect([completionLimit({}), completionLimit({ max_tokens: -1 }), completionLimit({ n_predict: 3 })]).toEqual([
    16,
    undefined,
    3,
  ]);
  expect(CompletionRequest.safeParse({ model: "m", prompt: [] }).success).toBe(false);
  expect(CompletionRequest.safeParse({ model: "m", prompt: "a", best_of: 1, n: 2 }).success).toBe(false);
  expect(CompletionRequest.safeParse({ model: "m", prompt: "a", echo: true, suffix: "b" }).success).toBe(false);
  expect(EmbeddingRequest.parse({ model: "m", input: "a" }).encoding_format).toBe("float");
});
