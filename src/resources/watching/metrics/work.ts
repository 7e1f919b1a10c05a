/** Metrics of jobs, deployments and queues. */
import type { Ctx } from "../../../context.ts";
import { HOUR_MS } from "../../../lib/units.ts";
import * as deployments from "../../serving/deployments/service.ts";
import { type Family, labelText } from "./prometheus.ts";
import { gauge, leftOut, MOST_ROWS, scoped, total, type View } from "./rows.ts";

type Job = {
  id: string;
  workspace_id: string;
  method: string;
  output_name: string;
  status: string;
  step: number;
  total_steps: number;
  reward: number | null;
  loss: number | null;
};
const liveJobs = scoped<Job>(
  (where) => `SELECT id, workspace_id, method, output_name, status, step, total_steps,
      json_extract(latest_metrics, '$.reward') AS reward, json_extract(latest_metrics, '$.loss') AS loss
    FROM training_jobs
    WHERE completed_at IS NULL AND status IN ('provisioning', 'running', 'paused', 'cancelling') ${where}
    LIMIT ${MOST_ROWS + 1}`,
);

export function jobs({ db }: Pick<Ctx, "db">, view: View): Family[] {
  const about = gauge("verk_training_job_info", "Training jobs that have begun and not ended");
  const step = gauge("verk_training_job_step", "Steps done");
  const steps = gauge("verk_training_job_total_steps", "Steps in all");
  const reward = gauge("verk_training_job_reward", "Mean reward of the last step");
  const loss = gauge("verk_training_job_loss", "Loss of the last step");
  const rows = liveJobs(db, view);
  for (const job of rows.slice(0, MOST_ROWS)) {
    const labels = labelText({ workspace: job.workspace_id, job: job.id });
    const more = labelText({ method: job.method, name: job.output_name, status: job.status });
    about.put(`${labels},${more}`, 1);
    step.put(labels, job.step);
    steps.put(labels, job.total_steps);
    reward.put(labels, job.reward);
    loss.put(labels, job.loss);
  }
  return [about, step, steps, reward, loss, leftOut("training_jobs", rows)];
}

type StatusCount = { workspace_id: string; status: string; n: number };
const jobsByStatus = scoped<StatusCount>(
  (where) => `SELECT workspace_id, status, count(*) AS n FROM training_jobs INDEXED BY training_jobs_standing
    WHERE completed_at IS NULL ${where} GROUP BY workspace_id, status`,
);
type Waiting = { workspace_id: string; kind: string; n: number };
const waiting = scoped<Waiting>(
  (where) => `SELECT workspace_id, kind, count(*) AS n FROM gpu_waits WHERE 1 ${where} GROUP BY workspace_id, kind`,
);

type Due = { workspace_id: string; n: number };
const dueImages = scoped<Due>(
  (where) => `SELECT workspace_id, sum(total - success_count - failure_count) AS n FROM detection_batches
    WHERE finished_at IS NULL ${where} GROUP BY workspace_id`,
);

export function queues({ db }: Pick<Ctx, "db">, view: View): Family[] {
  const byStatus = gauge("verk_training_jobs", "Training jobs that have not ended, by status");
  const depth = gauge(
    "verk_queue_depth",
    "Items that wait: training jobs, requests for GPU memory, images of detection batches",
  );
  for (const { workspace_id: workspace, status, n } of jobsByStatus(db, view)) {
    byStatus.put(labelText({ workspace, status }), n);
    if (status === "queued") depth.put(labelText({ workspace, queue: "training_jobs" }), n);
  }
  for (const { workspace_id: workspace, kind, n } of waiting(db, view))
    depth.put(labelText({ workspace, queue: `gpu_memory/${kind}` }), n);
  for (const { workspace_id: workspace, n } of dueImages(db, view))
    depth.put(labelText({ workspace, queue: "detection_images" }), n);
  return [byStatus, depth];
}

type Deployment = {
  id: string;
  workspace_id: string;
  name: string;
  model: string;
  status: string;
  parked: number;
  total_requests: number;
  total_errors: number;
  total_prompt_tokens: number;
  total_completion_tokens: number;
};
/** A stopped deployment is shown for an hour, so that its last numbers are scraped. */
const recentDeployments = scoped<Deployment>(
  (where) => `SELECT id, workspace_id, name, model, status, parked, total_requests, total_errors, total_prompt_tokens,
      total_completion_tokens
    FROM deployments
    WHERE (status IN ('queued', 'provisioning', 'serving', 'unhealthy')
      OR (status IN ('stopped', 'failed') AND updated_at > ?)) ${where} LIMIT ${MOST_ROWS + 1}`,
);

export function serving(ctx: Ctx, view: View): Family[] {
  const about = gauge("verk_deployment_info", "Deployments. The next request wakes one that is parked");
  const requests = total("verk_deployment_requests_total", "Requests to a deployment that have ended");
  const errors = total("verk_deployment_errors_total", "Requests to a deployment that failed");
  const tokens = total("verk_deployment_tokens_total", "Tokens read (prompt) and generated (completion)");
  const held = gauge("verk_deployment_held_requests", "Requests that wait for a replica to be ready");
  const open = gauge("verk_deployment_open_requests", "Requests that wait or are being answered");
  const now = deployments.requestsNow(ctx);
  const rows = recentDeployments(ctx.db, view, ctx.clock.now() - HOUR_MS);
  for (const row of rows.slice(0, MOST_ROWS)) {
    const labels = labelText({ workspace: row.workspace_id, deployment: row.id });
    const status = row.parked ? "parked" : row.status;
    about.put(`${labels},${labelText({ name: row.name, model: row.model, status })}`, 1);
    requests.put(labels, row.total_requests);
    errors.put(labels, row.total_errors);
    tokens.put(`${labels},kind="prompt"`, row.total_prompt_tokens);
    tokens.put(`${labels},kind="completion"`, row.total_completion_tokens);
    held.put(labels, now.get(row.id)?.held ?? 0);
    open.put(labels, now.get(row.id)?.open ?? 0);
  }
  return [about, requests, errors, tokens, held, open, leftOut("deployments", rows)];
}
