/** `return_token_ids` as vLLM has it, through the worker's routes over a scripted engine. */
import { expect, test } from "bun:test";
import { Completion } from "../../src/lib/chat/completion.ts";
import { ASK, chunks, events, httpWorker, json } from "./http_kit.ts";

const { engine, post, scripted } = httpWorker();
const END = "<|im_end|>";
const idsOf = (text: string) => [...engine.tokenize(text, { addBos: false, special: true })];
const promptIds = () => [...engine.requests.at(-1)!.prompt];
const FIELDS = { ...ASK, return_token_ids: true };

test("a chat has the tokens of its prompt and of each choice, beside its log-probabilities", async () => {
  scripted("Hel", "lo");
  const body = await json(await post("/chat/completions", { ...FIELDS, n: 2, logprobs: true }));
  expect(body.prompt_token_ids).toEqual(promptIds());
  expect(body.choices.map((choice: { token_ids: number[] }) => choice.token_ids)).toEqual([
    idsOf(`Hello${END}`),
    idsOf(`Hello${END}`),
  ]);
  expect(body.choices[0].logprobs.content).toHaveLength(3);
  const plain = await json(await post("/chat/completions", ASK));
  expect([plain.prompt_token_ids, plain.choices[0].token_ids]).toEqual([undefined, undefined]);
});

test("a streamed chat has the prompt in its first chunk, and the tokens of a part in its chunk", async () => {
  scripted("Hel", "lo");
  const parts = chunks(await (await post("/chat/completions", { ...FIELDS, stream: true })).text());
  expect(parts.map((part) => part.prompt_token_ids).filter(Boolean)).toEqual([promptIds()]);
  expect(parts[0]?.prompt_token_ids).toBeArray();
  expect(parts.map(({ choices: [choice] }) => [choice?.delta.content, choice?.token_ids])).toEqual([
    ["", undefined],
    ["Hel", idsOf("Hel")],
    ["lo", idsOf("lo")],
    [undefined, idsOf(END)],
    [undefined, undefined],
  ]);
});

test("tokens whose text a parser holds back are sent when they come", async () => {
  const tool = { type: "function", function: { name: "add", parameters: { type: "object", properties: {} } } };
  const said = '<tool_call>\n{"name": "add", "arguments": {}}\n</tool_call>';
  scripted(...said);
  const parts = chunks(await (await post("/chat/completions", { ...FIELDS, stream: true, tools: [tool] })).text());
  expect(parts.flatMap(({ choices: [choice] }) => choice?.token_ids ?? [])).toEqual(idsOf(said + END));
  expect(parts.at(-1)?.choices[0]?.finish_reason).toBe("tool_calls");
});

test("each choice of a completion has its prompt and its tokens, whole and streamed", async () => {
  scripted("ab", "c");
  const request = { ...FIELDS, prompt: ["x", [121, 122]], max_tokens: 8 };
  const body = Completion.parse(await json(await post("/completions", request)));
  const shown = body.choices.map((choice) => [choice.prompt_token_ids, choice.token_ids]);
  expect(shown).toEqual([
    [[120], idsOf(`abc${END}`)],
    [[121, 122], idsOf(`abc${END}`)],
  ]);
  const text = await (await post("/completions", { ...request, stream: true })).text();
  const parts = events(text)
    .filter((event) => event !== "[DONE]")
    .map((event) => Completion.parse(JSON.parse(event)));
  for (const index of [0, 1]) {
    const mine = parts.flatMap(({ choices }) => choices.filter((choice) => choice.index === index));
    expect(mine.flatMap((choice) => choice.token_ids ?? [])).toEqual(idsOf(`abc${END}`));
    expect(mine.flatMap((choice) => (choice.prompt_token_ids ? [choice.prompt_token_ids] : []))).toHaveLength(1);
  }
});
