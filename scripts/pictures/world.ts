/** A server with believable contents for the pictures of the dashboard. Everything is made by the public API. */
import sharp from "sharp";
import { isRight, LORA, RECIPE, REWARD, SEED, splitRows } from "../../src/lib/training/sums.ts";
import type { startBinary } from "../../test/binary.ts";
import { agents, annotations, conversations, monitors, type Post, people, rollouts } from "./loop.ts";
import { persons } from "./persons.ts";

export type Server = Awaited<ReturnType<typeof startBinary>>;
/** The ids that addresses of detail pages name. */
export type World = Awaited<ReturnType<typeof fillWorld>>;

const POLL_MS = 300;
/** Half a point for an answer of digits only. */
const DIGITS = `def reward(completions, **kwargs):
    return [0.5 * float(text.strip().isdigit()) for text in completions]
`;
/** The rows have no such column. */
const BROKEN = `def reward(completions, solution, **kwargs):
    return [float(text.strip() == right) for text, right in zip(completions, solution)]
`;

export async function fillWorld(server: Server, hook: string) {
  const post: Post = async (path, body, method = "POST") => {
    const answer = await server.call(method, path, body);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.body;
  };
  const get = async (path: string) => (await server.call("GET", path)).body;
  const reach = async (path: string, wanted: RegExp) => {
    for (;;) {
      const { status, error } = await get(path);
      if (wanted.test(status)) return;
      if (status === "failed") throw new Error(`${path}: ${JSON.stringify(error)}`);
      await Bun.sleep(POLL_MS);
    }
  };

  const endpoint = await post("/v1/webhooks", {
    url: `${hook}/verk`,
    description: "Posts finished runs to the team's channel",
    event_types: ["job.completed", "job.failed", "deployment.serving", "monitor.triggered", "dataset.snapshot_created"],
  });
  const failing = await post("/v1/webhooks", {
    url: `${hook}/broken`,
    description: "Staging",
    event_types: ["job.failed"],
  });
  await people(post);
  await persons(server, post);
  const { dataset, heldOut } = await rows(post);
  const exact = await post("/v1/reward_functions", { name: "exact-sum", source: REWARD });
  const digits = await post("/v1/reward_functions", { name: "digits-only", source: DIGITS });
  const run = (name: string, more: object, hyperparameters: object) =>
    post("/v1/training_jobs", {
      base_model: "verk-tiny",
      method: "grpo",
      output_name: name,
      dataset,
      seed: SEED,
      lora: LORA,
      reward_source: REWARD,
      checkpoint: { save_steps: 8 },
      hyperparameters: { ...RECIPE, ...hyperparameters },
      ...more,
    });

  const base = await post("/v1/deployments", {
    model: "verk-tiny",
    name: "base",
    capture: "full",
    context_length: 2048,
    parallel: 128,
  });
  const first = await run("sums-grpo", {}, {});
  await reach(`/v1/training_jobs/${first.id}`, /completed/);
  const other = await run("sums-small-lr", { lora: { r: 4 } }, { max_steps: 16, learning_rate: 5e-4 });
  const functions = [{ id: exact.id }, { id: digits.id, weight: 0.4 }];
  const parts = await run(
    "sums-two-rewards",
    { reward_source: undefined, reward_functions: functions },
    { max_steps: 10 },
  );
  const broken = await run(
    "sums-wrong-column",
    { reward_source: BROKEN },
    { max_steps: 2, per_device_train_batch_size: 16 },
  );
  for (const { id } of [other, parts]) await reach(`/v1/training_jobs/${id}`, /completed/);
  await reach(`/v1/training_jobs/${broken.id}`, /failed|completed/);

  const tuned = await post("/v1/deployments", { model: first.id, name: "sums", capture: "full", pinned: true });
  await post("/v1/deployments", { model: "verk-tiny", name: "night-shift", min_replicas: 0, idle_timeout_seconds: 5 });
  for (const { id } of [base, tuned]) await reach(`/v1/deployments/${id}`, /serving/);
  await agents(post);
  const trace = await conversations(server, post);
  const prompt = await tellingPrompt(post);

  const evaluator = await post("/v1/evaluators", {
    name: "right-sum",
    kind: "string_check",
    description: "The answer is the number and nothing else.",
    config: { operation: "equals" },
    pass_threshold: 1,
  });
  const code = await post("/v1/evaluators", {
    name: "short",
    kind: "code",
    description: "At most eight characters.",
    pass_threshold: 1,
    config: { source: "def reward(completion, **row):\n    return float(len(completion.strip()) <= 8)\n" },
  });
  const experiment = await post("/v1/experiments", {
    name: "Base against sums-grpo",
    dataset: heldOut,
    evaluators: ["right-sum", "short"],
    baseline: "base",
    targets: [
      { type: "deployment", deployment: base.id, name: "base" },
      { type: "deployment", deployment: tuned.id, name: "sums" },
    ],
    reference_field: "answer",
    params: { temperature: 0, max_tokens: 8 },
  });
  await reach(`/v1/experiments/${experiment.id}`, /completed/);
  const { queue, labels } = await annotations(post);
  const monitor = await monitors(post, tuned.id);
  for (const { id } of [endpoint, failing]) await server.call("POST", `/v1/webhooks/${id}/test`);
  const idOf = ({ id }: { id: string }) => id;
  return {
    run: idOf(first),
    other: idOf(other),
    parts: idOf(parts),
    broken: idOf(broken),
    base: idOf(base),
    tuned: idOf(tuned),
    endpoint: idOf(endpoint),
    failing: idOf(failing),
    experiment: idOf(experiment),
    dataset,
    digits: idOf(digits),
    evaluator: idOf(evaluator),
    code: idOf(code),
    trace,
    queue,
    labels,
    monitor,
    prompt,
    ...(await rollouts(post)),
    ...(await models(post, get, reach)),
    detection: idOf(await post("/api/detect", { image: (await sharp(NOISE).jpeg().toBuffer()).toString("base64") })),
  };
}

const NOISE = {
  create: {
    width: 512,
    height: 384,
    channels: 3,
    background: "#7a8",
    noise: { type: "gaussian", mean: 128, sigma: 40 },
  },
} as const;

type Get = (path: string) => Promise<{ data: { id: string; name: string; status: string }[] }>;
type Reach = (path: string, wanted: RegExp) => Promise<void>;

/** A quantized copy of the built-in model, so that the tree has a branch. */
async function models(post: Post, get: Get, reach: Reach): Promise<{ model: string; copy: string }> {
  const { data } = await get("/v1/models?registry=true&limit=100");
  const base = data.find(({ name }) => name === "verk-tiny")?.id ?? "";
  const copy = await post(`/v1/models/${base}/quantize`, { quantization: "Q8_0" }).catch(() => undefined);
  if (copy) await reach(`/v1/models/${copy.id}`, /ready|failed/);
  return { model: base, copy: copy?.id ?? base };
}

/** A sum that the tuned model knows and the base model does not. */
async function tellingPrompt(post: Post): Promise<string> {
  const rows = splitRows().heldOut;
  for (const row of rows) {
    const [base, tuned] = await Promise.all(
      ["base", "sums"].map(async (model) => {
        const messages = [{ role: "user", content: row.prompt }];
        const answer = await post("/v1/chat/completions", { model, messages, max_tokens: 8, temperature: 0 });
        return isRight(answer.choices[0].message.content, row);
      }),
    );
    if (tuned && !base) return row.prompt;
  }
  return rows[0]?.prompt ?? "";
}

/** Two runs that do not end while pictures are taken: one trains, one waits. Returns the first one once it trains. */
export async function startLiveRuns(server: Server, { dataset }: World): Promise<string[]> {
  const ids: string[] = [];
  for (const name of ["sums-long", "sums-next"]) {
    const { body, text } = await server.call("POST", "/v1/training_jobs", {
      base_model: "verk-tiny",
      method: "grpo",
      output_name: name,
      dataset,
      seed: SEED,
      lora: LORA,
      reward_source: REWARD,
      hyperparameters: { ...RECIPE, max_steps: 400, per_device_train_batch_size: 32 },
    });
    if (!body.id) throw new Error(text);
    ids.push(body.id);
  }
  while ((await server.call("GET", `/v1/training_jobs/${ids[0]}`)).body.progress.step < 12) await Bun.sleep(POLL_MS);
  return ids;
}

async function rows(post: Post): Promise<{ dataset: string; heldOut: string }> {
  const { train, heldOut } = splitRows();
  const upload = async (name: string, given: readonly object[]) => {
    const form = new FormData();
    form.set("name", name);
    form.set("file", new File([given.map((row) => JSON.stringify(row)).join("\n")], `${name}.jsonl`));
    return (await post("/v1/datasets", form)).id;
  };
  const dataset = await upload("sums", train);
  await post(`/v1/datasets/${dataset}/snapshots`, {});
  const changes = [
    { _op: "supersede", _row_id: 3, ...train[2], prompt: `${train[2]?.prompt} Answer with the number only.` },
    { _op: "tombstone", _row_id: 7 },
    { prompt: "What is 100 + 1?", answer: 101 },
    { prompt: "What is 100 + 2?", answer: 102 },
  ];
  await post(`/v1/datasets/${dataset}/rows`, { rows: changes });
  await post(`/v1/datasets/${dataset}/snapshots`, {});
  return { dataset, heldOut: await upload("sums-held-out", heldOut.slice(0, 60)) };
}
