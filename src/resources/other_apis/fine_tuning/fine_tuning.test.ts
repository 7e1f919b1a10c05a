import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { jobsApp } from "../../../../test/jobs_kit.ts";
import { write } from "../../../platform/db/db.ts";
import { trainingJobs } from "../../training/training_jobs/table.ts";
import { rowOf } from "./datasets.ts";
import { deployResults } from "./deploy.ts";
import { Grader, rewardSource } from "./graders.ts";
import { hyperparametersOf, servedName } from "./translate.ts";

let app: Awaited<ReturnType<typeof jobsApp>>;
beforeAll(async () => {
  app = await jobsApp();
});
afterAll(() => app.close().then(app.remove));

const ask = { role: "user", content: "1+1" };
const say = (content: string) => ({ role: "assistant", content });
const LINES = {
  supervised: { messages: [ask, say("2")] },
  dpo: { input: { messages: [ask] }, preferred_output: [say("2")], non_preferred_output: [say("3")] },
  reinforcement: { messages: [ask], answer: "2" },
};
const CHECK = {
  type: "string_check",
  name: "c",
  input: "{{sample.output_text}}",
  reference: "{{item.answer}}",
  operation: "eq",
};

async function upload(lines: unknown[], purpose = "fine-tune"): Promise<string> {
  const form = new FormData();
  form.set("purpose", purpose);
  form.set("file", new File([lines.map((line) => JSON.stringify(line)).join("\n")], "train.jsonl"));
  return (await app.call("POST", "/v1/files", undefined, { raw: form })).body.id;
}
const post = async (fields: object, lines: unknown[] = [LINES.supervised]) =>
  app.call("POST", "/v1/fine_tuning/jobs", { model: "random", training_file: await upload(lines), ...fields });
const get = async (id: string, more = "") => (await app.call("GET", `/v1/fine_tuning/jobs/${id}${more}`)).body;
const trainingJob = async (id: string) => (await app.call("GET", `/v1/training_jobs/${id}`)).body;

describe("a fine-tuning job", () => {
  test("is a training job on the rows of the file", async () => {
    const hyperparameters = { n_epochs: 2, batch_size: "auto", learning_rate_multiplier: 0.5 };
    const { status, body } = await post({ hyperparameters, suffix: "shop", seed: 7, metadata: { of: "test" } });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      object: "fine_tuning.job",
      status: "queued",
      fine_tuned_model: null,
      seed: 7,
      hyperparameters,
    });
    const job = await trainingJob(body.id);
    expect(job).toMatchObject({
      method: "sft",
      base_model: "random",
      dataset: { num_rows: 1 },
      metadata: { of: "test" },
    });
    expect(job.hyperparameters).toMatchObject({ num_train_epochs: 2, learning_rate: 1e-4 });
    expect(job.output_name).toStartWith("ft-random-shop-");
    expect((await app.call("GET", "/v1/fine_tuning/jobs")).body.data[0].id).toBe(body.id);
    expect((await get(body.id, "/events")).data[0]).toMatchObject({ object: "fine_tuning.job.event", type: "message" });
    expect((await get(body.id, "/checkpoints")).data).toEqual([]);
  });

  test("trains preferences, and by a grader", async () => {
    const dpo = await post({ method: { type: "dpo", dpo: { hyperparameters: { beta: 0.3 } } } }, [LINES.dpo]);
    expect(await trainingJob(dpo.body.id)).toMatchObject({ method: "dpo", hyperparameters: { beta: 0.3 } });
    const method = { type: "reinforcement", reinforcement: { grader: CHECK } };
    const graded = await post({ method }, [LINES.reinforcement]);
    const job = await trainingJob(graded.body.id);
    expect(job).toMatchObject({ method: "grpo", reward_language: "python" });
    expect(job.reward_source).toBe(rewardSource(Grader.parse(CHECK)));
    const rows = (await app.call("GET", `/v1/datasets/${job.dataset.id}/rows`)).body.data;
    expect(rows[0].data).toEqual({ prompt: [ask], answer: "2" });
  });

  test("is paused, resumed and cancelled", async () => {
    const { id } = (await post({})).body;
    const move = async (action: string) => (await app.call("POST", `/v1/fine_tuning/jobs/${id}/${action}`)).body.status;
    expect([await move("pause"), await move("resume"), await move("cancel")]).toEqual([
      "paused",
      "queued",
      "cancelled",
    ]);
    expect((await get(id)).finished_at).toBeNumber();
  });

  test("names the field of the request that is wrong, in the format of OpenAI", async () => {
    const batch = await upload([LINES.supervised], "batch");
    const score = { ...CHECK, type: "score_model" };
    const cases: [object, unknown[], number, string, RegExp][] = [
      [{ training_file: "file_none" }, [], 404, "/training_file", /No file/],
      [{ training_file: batch }, [], 400, "/training_file", /purpose fine-tune/],
      [{}, [LINES.supervised, LINES.dpo], 400, "/training_file", /line 2 needs "messages"/],
      [{}, [{ messages: [{ role: "poet", content: "x" }] }], 400, "/training_file", /Line 1.*role/],
      [{ method: { type: "dpo" } }, [LINES.supervised], 400, "/training_file", /"input"/],
      [{ model: "none" }, [LINES.supervised], 404, "/model", /none/],
      [
        { method: { type: "reinforcement", reinforcement: { grader: score } } },
        [LINES.reinforcement],
        400,
        "/method/reinforcement/grader/type",
        /string_check/,
      ],
      [{ suffix: "a b" }, [LINES.supervised], 400, "/suffix", /letters/],
    ];
    for (const [fields, lines, status, param, why] of cases) {
      const { status: got, body } = await post(fields, lines.length > 0 ? lines : [LINES.supervised]);
      expect([got, body.error.param]).toEqual([status, param]);
      expect(body.error.message).toMatch(why);
    }
  });

  test("belongs to its workspace", async () => {
    const { id } = (await post({})).body;
    for (const more of ["", "/events", "/checkpoints"])
      expect((await app.call("GET", `/v1/fine_tuning/jobs/${id}${more}`, undefined, { key: app.keyB })).status).toBe(
        404,
      );
  });
});

test("a result that cannot be deployed fails the job with the reason", async () => {
  const { id } = (await post({})).body;
  write(app.ctx.db, (tx) => void tx.update(trainingJobs).set({ status: "completed", completedAt: Date.now() }).run());
  expect((await get(id)).status).toBe("running"); // until it is deployed
  await deployResults(app.ctx, new AbortController().signal);
  expect(await get(id)).toMatchObject({
    status: "failed",
    error: { message: expect.stringContaining("not deployed") },
  });
});

test("rows and names are translated by pure functions", () => {
  expect(rowOf("dpo", LINES.dpo)).toEqual({ prompt: [ask], chosen: [say("2")], rejected: [say("3")] });
  expect(rowOf("reinforcement", { messages: [ask], prompt: "x" })).toContain("prompt");
  expect(rowOf("supervised", [])).toContain("object");
  const method = { type: "dpo" as const, dpo: { hyperparameters: { n_epochs: 1, learning_rate_multiplier: 2 } } };
  expect(hyperparametersOf(method)).toEqual({ num_train_epochs: 1, learning_rate: 2e-5 });
  const name = servedName({ model: "owner/Model-1B:Q4_K_M", training_file: "f" }, "job_000000abcdef");
  expect(name).toBe("ft-Model-1B-abcdef");
});
