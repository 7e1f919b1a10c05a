import { afterAll, beforeAll, expect, test } from "bun:test";
import OpenAI from "openai";
import { type TestApp, testApp } from "../../../../test/harness.ts";
import { chatAnswer, pretendServing } from "../../../../test/pretend_replica.ts";
import { CATEGORIES, shareOfYes } from "./categories.ts";

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was sent
type Json = any;
let app: TestApp;
let openai: OpenAI;
let sent: Json[] = [];

/** A model that finds violence wherever there is a fight, and nothing else. */
const answer = (path: string, body: Json) => {
  if (path !== "/chat/completions") return {};
  sent.push(body);
  const texts: string[] = body.messages[1].content.map((part: Json) => part.text ?? "");
  const isYes = texts[0]?.includes("fight") && texts.at(-1)?.includes("physical injury?");
  const [yes, no] = isYes ? [0.6, 0.2] : [0.02, 0.78];
  const top_logprobs = [
    { token: "Yes", logprob: Math.log(yes), bytes: null },
    { token: " no", logprob: Math.log(no), bytes: null },
    { token: "Maybe", logprob: Math.log(0.1), bytes: null },
  ];
  const text = isYes ? "yes" : "no";
  const content = [{ token: text, logprob: Math.log(0.01), bytes: null, top_logprobs }];
  const whole = chatAnswer(text) as Json;
  return { ...whole, choices: [{ ...whole.choices[0], logprobs: { content, refusal: null } }] };
};
beforeAll(async () => {
  app = testApp();
  const { body } = await app.call("POST", "/v1/deployments", { model: "owner/x", name: "guard" });
  pretendServing(app, body.id, { parallel: 8, answer });
  openai = new OpenAI({
    apiKey: app.keyA,
    baseURL: "http://localhost/v1",
    maxRetries: 0,
    fetch: ((url: string, init: RequestInit) => app.handle(new Request(url, init))) as typeof fetch,
  });
});
afterAll(() => app.close().then(app.remove));
const refusalOf = (call: PromiseLike<unknown>) => Promise.resolve(call).catch((error: unknown) => error);

test("openai: a moderation is the opinion of a deployment about each category", async () => {
  sent = [];
  const input = ["They fight with knives.", "They dance."];
  const { id, model, results } = await openai.moderations.create({ model: "guard", input });
  expect([id.startsWith("modr-"), model, results.length]).toEqual([true, "guard", 2]);
  const [fight, dance] = results;
  expect(fight?.flagged).toBe(true);
  const found = Object.entries(fight?.categories ?? {}).filter(([, is]) => is);
  expect(found).toEqual([["violence", true]]);
  expect(fight?.category_scores.violence).toBeCloseTo(0.61 / 0.81, 2);
  expect(dance?.flagged).toBe(false);
  expect(dance?.category_scores.hate).toBeCloseTo(0.025, 2);
  expect(Object.keys(dance?.category_scores ?? {})).toEqual(CATEGORIES.map(({ name }) => name));
  expect(dance?.category_applied_input_types["self-harm"]).toEqual(["text"]);
  expect(sent).toHaveLength(2 * CATEGORIES.length);
  expect(sent[0]).toMatchObject({ max_tokens: 1, logprobs: true });
});

test("openai: parts are one input, and images count for some categories", async () => {
  const input = [
    { type: "text" as const, text: "Look." },
    { type: "image_url" as const, image_url: { url: "data:image/png;base64,AAAA" } },
  ];
  const call = openai.moderations.create({ model: "guard", input });
  expect(String(await refusalOf(call))).toContain("reads no images");
});

test.each([
  [{ input: "a" }, "moderates texts"],
  [{ input: "a", model: "omni-moderation-latest" }, "omni-moderation-latest is not served here"],
  [{ input: "a", model: "none" }, "no active deployment is named"],
])("%j is 404 in words", async (fields, words) => {
  const refusal = await refusalOf(openai.moderations.create(fields));
  expect(refusal).toMatchObject({ status: 404, code: "model_not_found", message: expect.stringContaining(words) });
});

const first = (token: string, p: number, others: [string, number][]) => ({
  token,
  logprob: Math.log(p),
  top_logprobs: others.map(([text, q]) => ({ token: text, logprob: Math.log(q) })),
});
test.each([
  [
    first("yes", 0.6, [
      ["yes", 0.6],
      ["no", 0.2],
    ]),
    0.75,
  ],
  [
    first("y", 0.3, [
      ["y", 0.3],
      ["No", 0.1],
    ]),
    0.75,
  ],
  [
    first("no", 0.8, [
      ["no", 0.8],
      ["well", 0.1],
    ]),
    1 / 9,
  ],
  [first("no", 0.001, [["well", 0.9]]), 0.5],
  [first("well", 0.9, [["", 0.1]]), undefined],
])("the share of yes of %j is %p", (token, share) => {
  const given = shareOfYes(token);
  if (share === undefined) expect(given).toBeUndefined();
  else expect(given).toBeCloseTo(share, 6);
});
