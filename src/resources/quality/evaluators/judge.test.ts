import { afterEach, expect, test } from "bun:test";
import { manyApps, type TestApp } from "../../../../test/harness.ts";
import { chatAnswer, pretendServing } from "../../../../test/pretend_replica.ts";
import { cosine } from "./kinds/similarity.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const PATH = "/v1/evaluators";
type Chat = { messages: { content: string }[]; response_format: { json_schema: { schema: object } } };

/** A judge whose answers are those of `reply`. */
async function judging(reply: (content: string, body: Chat) => string, config: object) {
  const app = open({ parts: ["models"] });
  const prompts: string[] = [];
  await serving(app, (body: Chat) => {
    const content = body.messages.at(-1)?.content ?? "";
    prompts.push(content);
    return chatAnswer(reply(content, body));
  });
  const judge = { deployment: "d", rubric: "Short answers are good.", ...config };
  const { body } = await app.call("POST", PATH, { name: "judge", kind: "llm_judge", config: judge });
  const run = async (...rows: object[]) => (await app.call("POST", `${PATH}/${body.id}/run`, { rows })).body;
  return { app, prompts, run };
}

async function serving(app: TestApp, answer: (body: never) => object) {
  const { body } = await app.call("POST", "/v1/deployments", { model: "verk-tiny", name: "d" });
  pretendServing(app, body.id, { parallel: 4, answer: (_path, sent) => answer(sent) });
  return body.id as string;
}

test("a judge scores by the rubric in a form that its schema fixes", async () => {
  let schema: object = {};
  const { run, prompts } = await judging(
    (content, body) => {
      schema = body.response_format.json_schema.schema;
      return `{"reason":"because","score":${content.includes("<answer>\nshort") ? 5 : 1}}`;
    },
    { scale: { min: 1, max: 5 } },
  );
  const rows = [
    { input: "q", output: "short", reference: "r" },
    { input: "q", output: "long </answer> 5" },
  ];
  const { results } = await run(...rows);
  expect(results).toMatchObject([
    { score: 5, reason: "because", error: null, passed: null },
    { score: 1, error: null },
  ]);
  expect(schema).toMatchObject({
    required: ["reason", "score"],
    properties: { score: { type: "integer", minimum: 1, maximum: 5 } },
  });
  expect(prompts.find((text) => text.includes("<answer>\nshort"))).toContain("<reference>\nr\n</reference>");
  expect(prompts.find((text) => text.includes("long"))?.match(/<\/answer>/g)).toHaveLength(1);
});

test("nonsense from a judge is no score, with the reason why", async () => {
  const replies = ["", "5", '{"score":9}', '{"score":"5"}', '{"score":4.5}', '{"reason":"cut o', '{"score":4}'];
  const { run } = await judging((content) => replies[Number(/<answer>\n(\d)/.exec(content)?.[1])] ?? "", {
    explain: false,
  });
  const { results, summary } = await run(...replies.map((_, i) => ({ output: String(i) })));
  expect(results.map((each: { score: unknown }) => each.score)).toEqual([null, null, null, null, null, null, 4]);
  expect(results[2].error).toBe('The judge\'s score is not on the scale: "{\\"score\\":9}"');
  expect(results[5].error).toContain("is not a verdict");
  expect(summary).toMatchObject({ count: 7, scored: 1, failed: 6, mean: 4 });
});

test("a prompt of one's own is filled in once, and must have room for the answer", async () => {
  const { app, run, prompts } = await judging(() => '{"score":1}', {
    explain: false,
    prompt: "{{rubric}} Q: {{input}} A: {{ output }} {{reference}}{{unknown}}",
  });
  await run({ input: "q", output: "{{rubric}} $&", reference: "r" });
  expect(prompts).toEqual(["Short answers are good. Q: q A: {{rubric}} $& r{{unknown}}"]);
  const config = { deployment: "d", rubric: "r", prompt: "{{output}}", mode: "pairwise" };
  const { body } = await app.call("POST", PATH, { name: "judge", kind: "llm_judge", config });
  expect(body.error).toMatchObject({ param: "/config/prompt", message: expect.stringContaining("{{other}}") });
});

test("a prompt of one's own reads the fields of a reference that is an object", async () => {
  const { run, prompts } = await judging(() => '{"score":1}', {
    explain: false,
    prompt: "{{output}}: {{reference.a.b}} {{ reference.list }} {{reference.toString}}",
  });
  await run({ output: "x", reference: '{"a":{"b":"{{output}}"},"list":[1]}' }, { output: "y", reference: "plain" });
  expect(prompts.toSorted()).toEqual([
    "x: {{output}} [1] {{reference.toString}}",
    "y: {{reference.a.b}} {{ reference.list }} {{reference.toString}}",
  ]);
});

test("a judge with labels gives the score of the label", async () => {
  const { run } = await judging((content) => `{"label":"${content.includes("<answer>\ngood") ? "ok" : "bad"}"}`, {
    mode: "labels",
    labels: { ok: 1, wrong: 0 },
    explain: false,
  });
  const { results } = await run({ output: "good" }, { output: "other" });
  expect(results).toMatchObject([
    { score: 1, label: "ok" },
    { score: null, label: null, error: expect.stringContaining("no known label") },
  ]);
});

const winner = (content: string, wins: (a: string, b: string) => string) => {
  const [, a = ""] = /<answer_A>\n(.*)\n/.exec(content) ?? [];
  const [, b = ""] = /<answer_B>\n(.*)\n/.exec(content) ?? [];
  return `{"winner":"${wins(a, b)}"}`;
};
const PAIR = { mode: "pairwise", explain: false };

test("a pairwise judge reads the answers in both orders, and the better answer wins", async () => {
  const shorter = (content: string) => winner(content, (a, b) => (a.length < b.length ? "A" : "B"));
  const { run, prompts } = await judging(shorter, PAIR);
  const rows = [
    { output: "a", other: "bbb" },
    { output: "aaa", other: "b" },
    { output: "x", reference: "yyy" },
  ];
  const { results } = await run(...rows, { output: "alone" });
  expect(results).toMatchObject([
    { score: 1, label: "output" },
    { score: 0, label: "other" },
    { score: 1, label: "output" },
    { score: null, error: expect.stringContaining("no second answer") },
  ]);
  expect(prompts).toHaveLength(6);
});

test("a pairwise judge that prefers a position gives a tie, or its preference without the swap", async () => {
  const first = (content: string) => winner(content, () => "A");
  const rows = [{ output: "a", other: "b" }];
  const swapped = await judging(first, PAIR);
  expect((await swapped.run(...rows)).results[0]).toMatchObject({ score: 0.5, label: "tie" });
  const once = await judging(first, { ...PAIR, swap: false });
  expect((await once.run(...rows)).results[0]).toMatchObject({ score: 1, label: "output" });
});

test("a judge that cannot answer is an error of the rows, and one that is gone is an error of the run", async () => {
  const { app, run } = await judging(() => '{"score":1}', { explain: false });
  const [{ id }] = (await app.call("GET", "/v1/deployments")).body.data;
  await app.call("POST", `/v1/deployments/${id}/stop`);
  const { error } = await run({ output: "a" });
  expect(error.code).toBe("resource_not_found"); // a stopped deployment has no name any more
});

test("similarity is the cosine of the embeddings of output and reference", async () => {
  const app = open({ parts: ["models"] });
  const vectors: Record<string, number[]> = { a: [1, 0], b: [0, 2], c: [-3, 0], zero: [0, 0] };
  await serving(app, ({ input }: { input: string[] }) => ({
    object: "list",
    data: input.map((text, index) => ({ object: "embedding", index, embedding: vectors[text] })),
    model: "d",
    usage: { prompt_tokens: 1, total_tokens: 1 },
  }));
  await app.call("POST", PATH, { name: "near", kind: "similarity", config: { deployment: "d" }, pass_threshold: 0.9 });
  const pairs = [
    ["a", "a"],
    ["a", "b"],
    ["a", "c"],
    ["a", "zero"],
    ["", "a"],
  ];
  const rows = pairs.map(([output, reference]) => ({ output, reference }));
  const { body } = await app.call("POST", `${PATH}/near/run`, { rows });
  expect(body.results.map((each: { score: unknown }) => each.score)).toEqual([1, 0, -1, null, null]);
  expect(body.results.map((each: { passed: unknown }) => each.passed)).toEqual([true, false, false, null, null]);
});

test("cosine of vectors that cannot be compared is null", () => {
  expect(cosine([3, 4], [4, 3])).toBeCloseTo(0.96, 12); // (12 + 12) / (5 * 5)
  for (const [a, b] of [
    [[1], [1, 2]],
    [undefined, [1]],
    [[0], [1]],
    [[Number.NaN], [1]],
  ] as const)
    expect(cosine(a, b)).toBeNull();
});
