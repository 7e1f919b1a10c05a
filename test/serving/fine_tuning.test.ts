// tier: all (serves models)
/** The `openai` client with fine-tuning, unchanged, against the executable. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import OpenAI, { toFile } from "openai";
import { Grader, rewardSource } from "../../src/resources/other_apis/fine_tuning/graders.ts";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { tempDir, until } from "../harness.ts";

const dir = tempDir();
const env = { VERK_TRAINING__THREADS: "1", VERK_SERVING__THREADS: "1", VERK_HTTP__RATE_LIMIT_PER_SECOND: "0" };
let server: Awaited<ReturnType<typeof startBinary>>;
let openai: OpenAI;
beforeAll(async () => {
  const { key } = await makeKey(dir);
  server = await startBinary({ dir, env, key });
  openai = new OpenAI({ apiKey: key, baseURL: `${server.url}/v1`, maxRetries: 0 });
  const ready = async () => (await server.call("GET", "/v1/models/verk-tiny")).body.status === "ready";
  await until("verk-tiny to be ready", ready, 60_000);
}, 90_000);
afterAll(async () => {
  await server.kill();
  rmSync(dir, { recursive: true, force: true });
});

const upload = async (lines: object[]) =>
  openai.files.create({
    file: await toFile(Buffer.from(lines.map((line) => JSON.stringify(line)).join("\n")), "train.jsonl"),
    purpose: "fine-tune",
  });
const talk = (question: string, answer: string) => ({
  messages: [
    { role: "user", content: question },
    { role: "assistant", content: answer },
  ],
});

test("openai: a supervised job ends as a deployment that answers", async () => {
  const file = await upload(Array.from({ length: 4 }, (_, i) => talk(`What is ${i} + 1?`, `${i + 1}`)));
  const created = await openai.fineTuning.jobs.create({
    model: "verk-tiny",
    training_file: file.id,
    method: { type: "supervised", supervised: { hyperparameters: { n_epochs: 1, batch_size: 2 } } },
    suffix: "sums",
  });
  expect(created.status).toBe("queued");
  const job = await until(
    "the job to succeed",
    async () => {
      const now = await openai.fineTuning.jobs.retrieve(created.id);
      if (now.status === "failed") throw new Error(now.error?.message);
      return now.status === "succeeded" ? now : undefined;
    },
    120_000,
  );
  const model = job.fine_tuned_model ?? "";
  expect(model).toMatch(/^ft-verk-tiny-sums-/);
  const messages = [{ role: "user" as const, content: "What is 1 + 1?" }];
  const answer = await openai.chat.completions.create({ model, messages, max_tokens: 4 });
  expect(answer.usage?.completion_tokens).toBeGreaterThan(0);
  await isChosenByRequest(model);
  const events = (await openai.fineTuning.jobs.listEvents(created.id)).data;
  expect(events.length).toBeGreaterThan(1);
  const [checkpoint] = (await openai.fineTuning.jobs.checkpoints.list(created.id)).data;
  expect(checkpoint?.step_number).toBe(2);
  const ofCheckpoint = { model: checkpoint?.fine_tuned_model_checkpoint ?? "", messages, max_tokens: 4 };
  expect((await openai.chat.completions.create(ofCheckpoint)).usage?.completion_tokens).toBeGreaterThan(0);
  expect(await openai.models.delete(model)).toMatchObject({ deleted: true });
  const refusal = await openai.chat.completions.create({ model, messages }).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(OpenAI.NotFoundError);
}, 180_000);

/** The adapter of the job answers at a deployment of its base model too, if a request names it. */
async function isChosenByRequest(tuned: string) {
  const { id } = (await server.call("POST", "/v1/deployments", { model: "verk-tiny", name: "base" })).body;
  const serves = async () => (await server.call("GET", `/v1/deployments/${id}`)).body.status === "serving";
  await until("the base to serve", serves, 60_000);
  const registry = (await server.call("GET", "/v1/models?registry=true")).body.data as { id: string; type: string }[];
  const adapter = `base:${registry.find(({ type }) => type === "adapter")?.id}`;
  const listed = (await openai.models.list()).data.map(({ id: name }) => name);
  expect(listed).toEqual(["base", tuned]); // the adapter is listed once, as the deployment that serves it
  const likelihood = async (model: string, more = {}) => {
    const messages = [{ role: "user" as const, content: "What is 1 + 1?" }];
    const request = { model, messages, max_tokens: 1, temperature: 0, logprobs: true, ...more };
    return (await openai.chat.completions.create(request)).choices[0]?.logprobs?.content?.[0]?.logprob as number;
  };
  const own = await likelihood(tuned);
  expect(await likelihood(adapter)).toBeCloseTo(own, 4);
  expect(await likelihood("base", { lora: [{ id: adapter.slice("base:".length) }] })).toBeCloseTo(own, 4);
  await expect(likelihood("base:none")).rejects.toBeInstanceOf(OpenAI.NotFoundError);
}

const text = { input: "{{sample.output_text}}", reference: "{{item.answer}}" };
const GRADERS: [grader: object, scores: number[]][] = [
  [{ type: "string_check", name: "a", operation: "eq", ...text }, [1, 0, 0]],
  [{ type: "string_check", name: "a", operation: "ilike", ...text }, [1, 1, 0]],
  [{ type: "text_similarity", name: "a", evaluation_metric: "rouge_1", ...text }, [1, 0.5, 0]],
  [
    { type: "python", name: "a", source: "def grade(sample, item):\n    return len(sample['output_text'])" },
    [4, 14, 4],
  ],
  [
    {
      type: "multi",
      name: "a",
      calculate_output: "0.5 * same + min(size, 1)",
      graders: {
        same: { type: "string_check", name: "s", operation: "eq", ...text },
        size: { type: "python", name: "p", source: "def grade(sample, item):\n    return len(item['answer'])" },
      },
    },
    [1.5, 1, 1],
  ],
];

test("graders score as OpenAI describes them", async () => {
  const rows = [
    { prompt: "q", completion: "Oslo", answer: "Oslo" },
    { prompt: "q", completion: "oslo city oslo", answer: "Oslo" },
    { prompt: "q", completion: "Rome", answer: "Oslo" },
  ];
  for (const [given, scores] of GRADERS) {
    const source = rewardSource(Grader.parse(given));
    const { body } = await server.call("POST", "/v1/reward_functions/run", { source, language: "python", rows });
    expect([given, body]).toMatchObject([
      given,
      { results: scores.map((reward) => ({ reward: expect.closeTo(reward, 6) })) },
    ]);
  }
}, 60_000);
