/**
 * The whole loop through the API: captured traffic, annotations, a preference dataset, a DPO job, experiments, and a
 * switched deployment. Each step names the one before it and is found from there.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { startBinary } from "../binary.ts";
import { tempDir, until } from "../harness.ts";

const NOUNS =
  `river mountain city bird tree song book color planet metal fruit dance sport game drink soup cheese flower
insect fish lake island desert ocean street bridge castle tower museum garden market school doctor painter writer singer
actor king queen prince boat train plane bicycle car engine clock lamp chair table window door roof wall stone sand cloud
storm star moon valley forest farm village harbor coat shoe hat glove ring coin cup plate spoon knife bottle basket bell
drum flute horn letter poem story picture map road path gate fence field hill cave beach wave wind rain snow rope ladder hammer
nail saw brush pencil paper desk shelf pillow blanket mirror candle oven kettle pot pan bowl glass jar box bag purse belt`.split(
    /\s+/,
  );
const PAIRS = 40;
const HELD = 60;
/** verk-tiny says "I do not know that. I am a very small model." to most of these. Its annotators prefer less. */
const BRIEF = "^.{1,43}$";

const dir = tempDir();
let server: Awaited<ReturnType<typeof startBinary>>;
beforeAll(async () => {
  server = await startBinary({ dir, env: { VERK_HTTP__RATE_LIMIT_PER_SECOND: "0" } });
}, 60_000);
afterAll(async () => {
  await server.kill();
  rmSync(dir, { recursive: true, force: true });
});

async function call(method: string, path: string, body?: unknown) {
  const answer = await server.call(method, `/v1${path}`, body);
  if (answer.status >= 400) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
  return answer.body;
}
const get = (path: string) => call("GET", path);
type Listed = { id: string };
const idsOf = async (path: string): Promise<string[]> => (await get(path)).data.map(({ id }: Listed) => id);
const finished = (path: string) =>
  until(
    `the end of ${path}`,
    async () => {
      const body = await get(path);
      return ["completed", "failed", "cancelled"].includes(body.status) ? body : undefined;
    },
    120_000,
  );

async function deploy(model: string, name: string): Promise<string> {
  const { id } = await call("POST", "/deployments", { model, name, capture: "full" });
  await until(`${name} to serve`, async () => (await get(`/deployments/${id}`)).status === "serving", 60_000);
  return id;
}

async function ask(noun: string, params: object = {}) {
  const messages = [{ role: "user", content: `Name a ${noun}.` }];
  const body = { model: "support", messages, max_tokens: 16, temperature: 0, ...params };
  const { body: answer, headers } = await server.call("POST", "/v1/chat/completions", body);
  return { text: answer.choices[0].message.content as string, traceId: headers.get("x-trace-id") ?? "" };
}

/** Two traces of one question whose answers differ in length. */
async function traffic(): Promise<string[][]> {
  const pairs: string[][] = [];
  for (const noun of NOUNS.slice(HELD)) {
    const first = await ask(noun);
    for (let seed = 1; seed <= 4; seed++) {
      const second = await ask(noun, { temperature: 1.2, seed });
      if (second.text.length === first.text.length) continue;
      pairs.push([first.traceId, second.traceId]);
      break;
    }
    if (pairs.length === PAIRS) break;
  }
  return pairs;
}

/** An annotator who prefers the shorter answer. Returns the finished items. */
async function annotate(datasetId: string, pairs: string[][]) {
  const queue = await call("POST", "/annotation_queues", { name: "brevity", mode: "pairwise", dataset_id: datasetId });
  const path = `/annotation_queues/${queue.id}`;
  await call("POST", `${path}/items`, { items: pairs.map((trace_ids) => ({ trace_ids })) });
  const items = [];
  for (;;) {
    const { item } = await call("POST", `${path}/next`, { annotator: "ada" });
    if (item === null) return items;
    const [first, second] = item.outputs;
    const preferred = first.length < second.length ? "first" : "second";
    items.push(await call("POST", `${path}/items/${item.id}/annotations`, { annotator: "ada", preferred }));
  }
}

const train = async (dataset: string) => {
  const hyperparameters = { learning_rate: 1e-3, num_train_epochs: 3, per_device_train_batch_size: 8 };
  const body = { base_model: "verk-tiny", method: "dpo", dataset, output_name: "brief", seed: 1, hyperparameters };
  const job = await finished(`/training_jobs/${(await call("POST", "/training_jobs", body)).id}`);
  expect([job.status, job.error]).toEqual(["completed", null]);
  return job;
};

/** The second target against the first one. */
async function compare(dataset: string, targets: object[]) {
  const body = { dataset, targets, evaluators: ["brief"], params: { max_tokens: 16 } };
  const experiment = await finished(`/experiments/${(await call("POST", "/experiments", body)).id}`);
  expect([experiment.status, experiment.error]).toEqual(["completed", null]);
  const { winners, targets: figures } = await get(`/experiments/${experiment.id}/summary`);
  const { comparison } = figures[1].evaluators[0];
  return { experiment, winner: winners.brief as string | null, p: comparison.p_value as number };
}

test("traffic becomes annotations, a dataset, a job, an experiment, and a better deployment", async () => {
  const base = await deploy("verk-tiny", "support");
  const held = await call("POST", "/datasets", { name: "held", format: "prompt" });
  // Three of five answers of the rival are brief: more than those of verk-tiny, and fewer than those of the result.
  const answer = (i: number) => "No. ".repeat(i % 5 < 3 ? 1 : 20);
  const rows = NOUNS.slice(0, HELD).map((noun, i) => ({ prompt: `Name a ${noun}.`, rival: answer(i) }));
  await call("POST", `/datasets/${held.id}/rows`, { rows });
  const config = { operation: "regex", value: BRIEF };
  const evaluator = await call("POST", "/evaluators", { name: "brief", kind: "string_check", config });
  const rival = { type: "outputs", field: "rival" };
  const support = { type: "deployment", deployment: "support" };

  const before = await compare(held.id, [rival, support]);
  expect(before).toMatchObject({ winner: "rival" });
  expect(before.p).toBeLessThan(0.05);

  const pairs = await traffic();
  expect(pairs).toHaveLength(PAIRS);
  const dataset = await call("POST", "/datasets", { name: "preferences", format: "preference" });
  const items = await annotate(dataset.id, pairs);
  expect(items).toHaveLength(PAIRS);
  const recorded = await idsOf(`/traces?deployment_id=${base}&limit=100`); // before experiments add theirs
  const job = await train(dataset.id);
  const tuned = { type: "checkpoint", job: job.id, name: "tuned" };
  const decision = await compare(held.id, [{ ...support, name: "base" }, tuned]);
  expect(decision).toMatchObject({ winner: "tuned" });
  expect(decision.p).toBeLessThan(0.05);

  await call("PATCH", `/deployments/${base}`, { model: job.id });
  const switched = await until(
    "the switch",
    async () => {
      expect((await ask("river")).text).not.toBe(""); // it answers all the while
      const deployment = await get(`/deployments/${base}`);
      return deployment.model === job.id ? deployment : undefined;
    },
    60_000,
  );
  expect(switched).toMatchObject({ status: "serving", previous_model: { model: "verk-tiny" } });
  const { traceId } = await ask("river");
  const after = await compare(held.id, [rival, support]);
  expect(after).toMatchObject({ winner: "support" });
  expect(after.p).toBeLessThan(0.05);

  // Request → deployment, and back.
  expect((await get(`/traces/${pairs[0]?.[0]}`)).deployment_id).toBe(base);
  expect(recorded).toContain(pairs.at(-1)?.[1] ?? "");
  const traced = (id: string) => until("the trace", () => get(`/traces/${id}`).catch(() => undefined));
  expect(await traced(pairs[0]?.[0] ?? "")).toMatchObject({ model: "verk-tiny", experiment_item: null });
  expect(await traced(traceId)).toMatchObject({ deployment_id: base, model: job.id });
  // Annotation → requests and row, and back.
  for (const item of [items[0], items.at(-1)]) {
    for (const id of item.source.trace_ids)
      expect((await get(`/traces/${id}`)).annotation_items).toEqual([
        { id: item.id, queue_id: item.queue_id, status: "completed" },
      ]);
    const { data } = await get(`/datasets/${dataset.id}/rows?after=${item.dataset_row_id - 1}&limit=1`);
    expect(data[0]).toMatchObject({ row_id: item.dataset_row_id, data: { annotation_item_id: item.id } });
  }
  expect((await get(`/annotation_queues/${items[0].queue_id}`)).dataset_id).toBe(dataset.id);
  // Job → dataset, and back.
  expect(job.dataset).toEqual({ id: dataset.id, name: dataset.name, snapshot_id: "@snap-1", num_rows: PAIRS });
  expect(await idsOf(`/training_jobs?dataset_id=${dataset.id}`)).toEqual([job.id]);
  // Experiments → dataset, deployments, job and evaluator, and back.
  const [first, second, third] = [before.experiment, decision.experiment, after.experiment];
  expect([first.dataset_id, first.evaluators[0].id]).toEqual([held.id, evaluator.id]);
  expect(second.targets).toMatchObject([{ deployment_id: base }, { job_id: job.id, temporary: true }]);
  expect(third.targets[1]).toMatchObject({ deployment_id: base, job_id: job.id });
  const all = [third.id, second.id, first.id];
  expect(await idsOf(`/experiments?dataset_id=${held.id}`)).toEqual(all);
  expect(await idsOf(`/experiments?evaluator_id=${evaluator.id}`)).toEqual(all);
  expect(await idsOf(`/experiments?deployment_id=${base}`)).toEqual(all);
  expect(await idsOf(`/experiments?job_id=${job.id}`)).toEqual([third.id, second.id]);
  // Deployments → job and experiment, and back.
  const temporary = second.targets[1].deployment_id;
  expect(await idsOf(`/deployments?model=${job.id}`)).toEqual([base]); // the temporary one is the server's own
  const { data: answers } = await get(`/experiments/${third.id}/items?target=support&limit=1`);
  const { id, experiment_id, row_id, trace_id } = answers[0];
  expect((await traced(trace_id)).experiment_item).toEqual({ id, experiment_id, row_id });
  expect((await get(`/deployments/${temporary}`)).metadata.experiment_id).toBe(second.id);
}, 240_000);
