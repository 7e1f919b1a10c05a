// tier: all (serves models)
/** Rollouts on the executable: the tokens of turns with a real tokenizer and its cache. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { startServing } from "./served.ts";

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was answered
type Json = any;
let server: Awaited<ReturnType<typeof startServing>>;
beforeAll(async () => {
  server = await startServing({});
  await server.deploy({ model: "verk-tiny", name: "tiny", parallel: 4, context_length: 512 });
}, 120_000);
afterAll(() => server?.stop());

const api = async (method: string, path: string, body?: object): Promise<Json> => {
  const headers = { authorization: `Bearer ${server.key}`, "content-type": "application/json" };
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  return (await fetch(`${server.url}${path}`, { method, headers, ...sent })).json();
};

test("each turn begins with the exact tokens of the turn before, which are in the cache", async () => {
  const opened = await api("POST", "/v1/rollouts", { model: "tiny", sampling: { seed: 5, max_completion_tokens: 12 } });
  const client = new OpenAI({ baseURL: opened.base_url, apiKey: opened.api_key, maxRetries: 0 });
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "What is 7 + 5?" }];
  const cached: number[] = [];
  for (let turn = 0; turn < 4; turn++) {
    const { choices, usage } = await client.chat.completions.create({ model: "any", messages });
    cached.push(usage?.prompt_tokens_details?.cached_tokens ?? 0);
    messages.push(choices[0]!.message, { role: "user", content: `And ${turn} + 9?` });
  }
  const { data: turns } = await api("GET", `/v1/rollouts/${opened.id}/turns`);
  expect(turns.map(({ parent, branch }: Json) => [parent, branch])).toEqual([
    [null, null],
    [1, null],
    [2, null],
    [3, null],
  ]);
  let length = 0;
  for (const [i, turn] of turns.entries()) {
    expect(turn.kept_tokens).toBe(length);
    expect(turn.logprobs).toHaveLength(turn.token_ids.length);
    expect(cached[i]).toBeGreaterThanOrEqual(Math.max(0, length - 1)); // the last token of an answer may not be read yet
    length += turn.prompt_token_ids.length + turn.token_ids.length;
  }
  // the same tokens, drawn again one by one, have the same log-probabilities
  const [first] = turns;
  const request = {
    model: "tiny",
    prompt: [...first.prompt_token_ids, ...first.token_ids],
    echo: true,
    logprobs: 0,
    max_tokens: 0,
  };
  const { choices } = await api("POST", "/v1/completions", request);
  const scored = choices[0].logprobs.token_logprobs.slice(first.prompt_token_ids.length);
  for (const [i, logprob] of first.logprobs.entries()) expect(scored[i]).toBeCloseTo(logprob, 2);
}, 60_000);

test("sixteen agents at once, in two formats: no turn is lost or mixed", async () => {
  const rollouts = await Promise.all(
    Array.from({ length: 16 }, () =>
      api("POST", "/v1/rollouts", { model: "tiny", sampling: { max_completion_tokens: 6 } }),
    ),
  );
  await Promise.all(
    rollouts.map(async (opened: Json, i) => {
      const openai = new OpenAI({ baseURL: opened.base_url, apiKey: opened.api_key });
      const anthropic = new Anthropic({ baseURL: opened.base_url, apiKey: opened.api_key });
      const messages: { role: "user" | "assistant"; content: string }[] = [{ role: "user", content: `I am ${i}.` }];
      for (let turn = 0; turn < 3; turn++) {
        const said =
          i % 2 === 0
            ? ((await openai.chat.completions.create({ model: "x", messages })).choices[0]?.message.content ?? "")
            : await anthropic.messages.stream({ model: "x", max_tokens: 6, messages }).finalText();
        messages.push({ role: "assistant", content: said }, { role: "user", content: `Again ${i}.` });
      }
    }),
  );
  for (const [i, { id }] of rollouts.entries()) {
    const { data: turns } = await api("GET", `/v1/rollouts/${id}/turns`);
    expect(turns.map(({ parent, branch }: Json) => [parent, branch])).toEqual([
      [null, null],
      [1, null],
      [2, null],
    ]);
    expect(JSON.stringify(turns[0].messages)).toContain(`I am ${i}.`);
  }
}, 60_000);
