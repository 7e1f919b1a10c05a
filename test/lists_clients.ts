/** The lists in the formats of other programs. */
import type { TestApp } from "./harness.ts";
import { insert } from "./insert_row.ts";
import type { ListCase } from "./lists_kit.ts";

const CONVERSATION = { metadata: "{}", removed_at: null };

/** `job`: makes the training job of this id, once. `JOB`: the id of the job whose lists are read. */
export const clientLists = (job: (app: TestApp, id: string) => string, JOB: string): readonly ListCase[] => {
  const tuned = (app: TestApp) => {
    const known = app.ctx.db.$client.query("SELECT 1 FROM fine_tuning_jobs WHERE id = ?").get(job(app, JOB));
    if (!known) insert(app, "fine_tuning_jobs", JOB, 1, { method: '{"type":"supervised"}' });
    return { id: JOB };
  };
  return [
    {
      route: "/v1/batches",
      table: "inference_batches",
      prefix: "batch",
      row: () => ({ status: "completed", endpoint: "/v1/embeddings", finished_at: 1 }),
    },
    {
      route: "/v1/messages/batches",
      table: "inference_batches",
      prefix: "batch",
      row: () => ({ status: "completed", endpoint: "/v1/messages", finished_at: 1 }),
    },
    {
      route: "/v1/containers",
      table: "sessions",
      prefix: "ses",
      row: () => ({ status: "ready", metadata: "{}", volumes: "[]", env: "", name: "c" }),
      filters: { name: { value: "c", column: null } },
    },
    { route: "/v1/vector_stores", table: "client_vector_stores", prefix: "vs", row: () => CONVERSATION },
    {
      route: "/v1/rollouts",
      table: "rollouts",
      prefix: "rol",
      row: (_, i) => ({ status: "finished", key_hash: `k${i}`, sampling: "{}", metadata: "{}" }),
    },
    { route: "/v1/conversations", table: "client_conversations", prefix: "conv", row: () => CONVERSATION },
    {
      route: "/v1/files",
      table: "client_files",
      prefix: "file",
      row: (_, i) => ({ storage_key: `k${i}`, purpose: "batch" }),
      filters: { purpose: { value: "batch", column: "purpose" } },
    },
    {
      route: "/v1/fine_tuning/jobs",
      table: "fine_tuning_jobs",
      prefix: "job",
      row: (app, _, id) => ({ method: '{"type":"supervised"}', model: job(app, id) }),
    },
    {
      route: "/v1/fine_tuning/jobs/{id}/checkpoints",
      table: "training_checkpoints",
      prefix: "ckpt",
      at: tuned,
      row: (_, i) => ({ job_id: JOB, step: i, metrics: "{}" }),
    },
    {
      route: "/v1/fine_tuning/jobs/{id}/events",
      table: "training_events",
      prefix: "evt",
      at: tuned,
      row: () => ({ job_id: JOB, level: "info", data: "{}" }),
    },
  ];
};
