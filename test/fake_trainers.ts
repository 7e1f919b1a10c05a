import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { newId } from "../src/lib/ids.ts";
import type { Clock } from "../src/platform/clock.ts";
import { write } from "../src/platform/db/db.ts";
import * as gpu from "../src/resources/machines/gpu/service.ts";
import { NO_REWARDS } from "../src/resources/training/training_jobs/admission/rewards.ts";
import { blankJob, currentJob } from "../src/resources/training/training_jobs/state/rows.ts";
import {
  type JobRow,
  type Rewards,
  trainingEvents,
  trainingJobs,
  trainingMetrics,
} from "../src/resources/training/training_jobs/table.ts";
import { startsOf } from "./fake_starts.ts";
import { withFakes } from "./fake_workers/program.ts";
import type { TrainerLife } from "./fake_workers/trainer.ts";
import { type TestApp, tempDir, testApp, until } from "./harness.ts";
import { makeAdapter, makeModel } from "./models.ts";
import { registerRandom } from "./registered.ts";

type Options = {
  dir?: string;
  clock?: Clock;
  flags?: Record<string, unknown>;
  lives?: readonly TrainerLife[];
  /** Without the loop a test calls reconcile itself. */
  loop?: boolean;
};

/** The application with fake trainers, each of which follows its entry in `lives`. */
export async function training({ dir = tempDir(), clock, flags = {}, lives = [{}], loop = true }: Options = {}) {
  const script = join(dir, "trainers.json");
  const file = join(dir, "models", "random.gguf");
  const adapter = join(dir, "adapter.gguf");
  if (!existsSync(file)) {
    mkdirSync(dirname(file), { recursive: true });
    renameSync(makeModel(dirname(file), { arch: "llama", type: "F32" }), file);
    renameSync(makeAdapter(dir, { arch: "llama", type: "F32" }), adapter);
  }
  const relive = (next: readonly TrainerLife[]) =>
    writeFileSync(script, JSON.stringify(next.map((life) => ({ adapter, ...life }))));
  relive(lives);
  const fake = withFakes("trainer", script);
  const app = testApp({
    dir,
    flags: { "workers.silence_ms": 86_400_000, ...flags },
    loops: loop ? ["training_jobs.reconcile"] : [],
    parts: ["training_jobs"],
    supervise: fake,
    ...(clock ? { clock } : {}),
  });
  gpu.clear(app.ctx);
  await registerRandom(app.ctx);
  const dataset = await datasetOf(app);
  const row = (id: string): JobRow => {
    const job = currentJob(app.ctx.db, id);
    if (!job) throw new Error(`no job ${id}`);
    return job;
  };
  return Object.assign(app, {
    relive,
    row,
    starts: () => startsOf(script),
    killLast: () => process.kill(startsOf(script).at(-1) ?? Number.NaN, "SIGKILL"),
    add: (more: Partial<JobRow> = {}) => add(app, dataset, more),
    metrics: (id: string) => metricsOf(app, id),
    steps: (id: string) => metricsOf(app, id).map(({ step }) => step),
    notes: (id: string) =>
      app.ctx.db
        .select()
        .from(trainingEvents)
        .all()
        .filter(({ jobId }) => jobId === id),
    leases: () => app.ctx.db.$client.query<{ holder: string }, []>("SELECT holder FROM gpu_leases").all(),
    /** Waits until the job has this status and returns the row. */
    reaches: (id: string, status: JobRow["status"], ms?: number) =>
      until(`${id} to be ${status}`, () => (row(id).status === status ? row(id) : undefined), ms).catch((error) => {
        throw new Error(`it is ${JSON.stringify(row(id), null, 1)}`, { cause: error });
      }),
  });
}
/** For tests with several applications: `const { app, closeAll } = manyTrainings(); afterEach(closeAll)`. */
export function manyTrainings() {
  const open: TrainingApp[] = [];
  return {
    app: async (...args: Parameters<typeof training>): Promise<TrainingApp> => {
      const made = await training(...args);
      open.push(made);
      return made;
    },
    /** The files stay, so that the next application can open them. */
    close: async (on: TrainingApp) => {
      await on.close();
      open.splice(open.indexOf(on), 1);
    },
    closeAll: async () => {
      for (const each of open.splice(0)) await each.close().then(each.remove);
    },
  };
}
export type TrainingApp = Awaited<ReturnType<typeof training>>;

async function datasetOf(app: TestApp): Promise<string> {
  const form = new FormData();
  form.append("name", "rows");
  form.append("file", new File(['{"prompt":"1+1"}\n{"prompt":"2+2"}\n'], "rows.jsonl"));
  const { body } = await app.call("POST", "/v1/datasets", undefined, { raw: form });
  await app.call("POST", `/v1/datasets/${body.id}/snapshots`);
  return body.id;
}

const LORA = { r: 4, alpha: 8, dropout: 0, target_modules: ["q_proj" as const], use_rslora: false };

function add(app: TestApp, datasetId: string, more: Partial<JobRow>): string {
  const job = jobRow(app.ctx.clock.now(), { workspaceId: app.workspaceA, datasetId, ...more });
  write(app.ctx.db, (tx) => tx.insert(trainingJobs).values(job).run());
  app.ctx.wake("training_jobs.reconcile");
  return job.id;
}

export function jobRow(now: number, more: Partial<JobRow> & Pick<JobRow, "workspaceId" | "datasetId">): JobRow {
  const id = newId("job", now);
  return {
    ...blankJob(),
    id,
    method: "sft",
    baseModel: "random",
    baseModelId: null,
    outputName: `out-${id}`,
    snapshotNumber: 1,
    numRows: 2,
    evalDatasetId: null,
    evalSnapshotNumber: null,
    hyperparameters: {},
    given: null,
    lora: LORA,
    rewards: NO_REWARDS,
    gpuType: "cpu",
    gpuCount: 1,
    provider: "local",
    priority: 0,
    seed: 7,
    lock: { base_model_sha256: null, snapshot_sha256: null, reward_sha256: null, app_version: "0", seed: 7 },
    sourceJob: null,
    resumeFrom: null,
    codeArtifactId: null,
    command: null,
    secrets: [],
    volumes: [],
    saveSteps: 2,
    keepLast: 2,
    maxRuntimeMs: null,
    maxCostMicros: null,
    publish: false,
    totalSteps: 5,
    memoryBytes: 1_000_000,
    microDivisor: 1,
    rateMicros: null,
    metadata: {},
    queuedAt: now,
    createdAt: now,
    updatedAt: now,
    apiKeyId: null,
    ...more,
  };
}

const TIMING = ["step_time"];

/** Metrics by step, without times. */
const metricsOf = (app: TestApp, id: string) =>
  app.ctx.db
    .select()
    .from(trainingMetrics)
    .all()
    .filter(({ jobId }) => jobId === id)
    .sort((a, b) => a.step - b.step)
    .map(({ step, values }) => ({
      step,
      ...Object.fromEntries(Object.entries(values).filter(([key]) => !TIMING.includes(key))),
    }));

/** The rewards of a job with one Python function. */
export const scoredBy = (source: string): Rewards => {
  const code = { language: "python" as const, source, params: {}, seed: 1 };
  return { source, language: "python", functions: [], parts: [{ name: "reward", code, weight: 1 }] };
};
