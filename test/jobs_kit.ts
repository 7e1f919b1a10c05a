import { mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { transition } from "../src/events/lifecycle.ts";
import { newId } from "../src/lib/ids.ts";
import { write } from "../src/platform/db/db.ts";
import * as gpu from "../src/resources/machines/gpu/service.ts";
import { type Action, machine } from "../src/resources/training/training_jobs/machine.ts";
import { type JobRow, trainingCheckpoints } from "../src/resources/training/training_jobs/table.ts";
import { fakeRewards } from "./fake_rewards.ts";
import { type Options, type TestApp, testApp } from "./harness.ts";
import { makeModel } from "./models.ts";
import { registerRandom } from "./registered.ts";

export const SCORES = "def reward(completions, **kwargs):\n    return [len(text) for text in completions]\n";
const ROWS = {
  prompt: [{ prompt: "1+1" }, { prompt: "2+2" }, { prompt: "3+3" }],
  completion: [{ prompt: "1+1", completion: "2" }],
  chat: [{ messages: [{ role: "user", content: "hi" }] }],
  preference: [{ prompt: "1+1", chosen: "2", rejected: "3" }],
};
export type RowFormat = keyof typeof ROWS;

/** The application with a trainable model and no loop: jobs keep their status. */
export async function jobsApp(options: Options = {}) {
  const app = testApp(options);
  const rewards = fakeRewards(app);
  gpu.useProbe(app.ctx, async () => []);
  const dir = join(app.dir, "models");
  mkdirSync(dir, { recursive: true });
  renameSync(makeModel(dir, { arch: "llama", type: "F32" }), join(dir, "random.gguf"));
  await registerRandom(app.ctx);
  await app.call("GET", "/v1/datasets"); // the first checked answer takes seconds
  const datasets = new Map<RowFormat, string>();
  const dataset = async (format: RowFormat): Promise<string> => {
    const existing = datasets.get(format);
    if (existing) return existing;
    const { body } = await app.call("POST", "/v1/datasets", { name: format, format });
    await app.call("POST", `/v1/datasets/${body.id}/rows`, { rows: ROWS[format] });
    datasets.set(format, body.id);
    return body.id;
  };
  const request = async (more: object = {}) => ({
    base_model: "random",
    method: "grpo",
    dataset: await dataset("prompt"),
    reward_source: SCORES,
    ...more,
  });
  const post = async (more: object = {}, call: Parameters<TestApp["call"]>[3] = {}) =>
    app.call("POST", "/v1/training_jobs", await request(more), call);
  return Object.assign(app, {
    rewards,
    dataset,
    request,
    post,
    job: async (more: object = {}): Promise<string> => {
      const { body, status } = await post(more);
      if (status !== 201) throw new Error(JSON.stringify(body));
      return body.id;
    },
    get: async (id: string) => (await app.call("GET", `/v1/training_jobs/${id}`)).body,
    /** Moves a job like the code that runs jobs. */
    moves: (id: string, actions: readonly Action[], patch: Partial<JobRow> = {}) =>
      write(app.ctx.db, (tx) => {
        for (const action of actions)
          if (!transition(tx, machine, action, { id, now: app.ctx.clock.now() }, patch))
            throw new Error(`${id} cannot ${action}`);
      }),
    checkpoint: (jobId: string, step: number, more: object = {}): string => {
      const id = newId("ckpt");
      const where = { workspaceId: app.workspaceA, path: `jobs/${jobId}/checkpoints/step-${step}` };
      const row = {
        id,
        jobId,
        step,
        ...where,
        sizeBytes: 10,
        metrics: { loss: 1 },
        value: 1,
        createdAt: step,
        deletedAt: null,
      };
      write(app.ctx.db, (tx) =>
        tx
          .insert(trainingCheckpoints)
          .values({ ...row, ...more })
          .run(),
      );
      return id;
    },
  });
}
export type JobsApp = Awaited<ReturnType<typeof jobsApp>>;
