/**
 * MLflow's REST API 2.0. MLflow appends metrics and never overwrites them. An error may leave the first part of a batch
 * stored. So points are sent in the order of steps, and `has` is asked first after a doubt. Parameters and tags may be
 * sent again.
 */
import {
  accepted,
  type Call,
  mustPick,
  type Point,
  pick,
  type RemoteRun,
  type State,
  type Tracker,
} from "./contract.ts";
import { MLFLOW_EXPERIMENT, MLFLOW_RUN, MLFLOW_RUNS } from "./forms.ts";

const API = "/api/2.0/mlflow";
const JOB_TAG = "verk.job_id";
const KEY_LENGTH = 250;
const VALUE_LENGTH = 500; // accepted by every version
const PARAMS_AT_ONCE = 100;

const STATES: Record<State, string> = {
  queued: "SCHEDULED",
  running: "RUNNING",
  completed: "FINISHED",
  failed: "FAILED",
  cancelled: "KILLED",
};

/** Every version accepts letters, digits, `_`, `-`, `.`, `/` and spaces in a name. */
const nameOf = (key: string) => key.replaceAll(/[^\w\-. /]/g, "_").slice(0, KEY_LENGTH);

async function experimentOf(call: Call, project: string): Promise<string | undefined> {
  const path = `${API}/experiments/get-by-name?experiment_name=${encodeURIComponent(project)}`;
  const answer = await call({ path, form: MLFLOW_EXPERIMENT });
  if (answer.status === 404 && pick(answer.body, "error_code") === "RESOURCE_DOES_NOT_EXIST") return undefined;
  return mustPick(accepted(answer, "experiments/get-by-name"), "experiment", "experiment_id");
}

async function mustHaveExperiment(call: Call, project: string): Promise<string> {
  const existing = await experimentOf(call, project);
  if (existing !== undefined) return existing;
  const response = await call({ path: `${API}/experiments/create`, body: { name: project }, form: MLFLOW_EXPERIMENT });
  if (pick(response.body, "error_code") === "RESOURCE_ALREADY_EXISTS") {
    const theirs = await experimentOf(call, project); // made in between, or deleted there and in the way
    if (theirs !== undefined) return theirs;
  }
  return mustPick(accepted(response, "experiments/create"), "experiment_id");
}

const remoteRunOf = (baseUrl: string, project: string, id: string): RemoteRun => ({
  id,
  project,
  url: `${baseUrl}/#/experiments/${encodeURIComponent(project)}/runs/${encodeURIComponent(id)}`,
});

const log = async (call: Call, remote: RemoteRun, batch: object) =>
  void accepted(await call({ path: `${API}/runs/log-batch`, body: { run_id: remote.id, ...batch } }), "runs/log-batch");

export const mlflow: Tracker = {
  /** `name:password` for a server with basic authentication, else a token. */
  authorization: (secret) =>
    /^[^:\s]+:\S/.test(secret) ? `Basic ${Buffer.from(secret).toString("base64")}` : `Bearer ${secret}`,

  async check(call, project) {
    await experimentOf(call, project);
  },

  async open(call, { jobId, name, method, project, createdAt }, baseUrl) {
    const experiment = await mustHaveExperiment(call, project);
    const search = { experiment_ids: [experiment], filter: `tags."${JOB_TAG}" = '${jobId}'`, max_results: 1 };
    const runs = accepted(await call({ path: `${API}/runs/search`, body: search, form: MLFLOW_RUNS }), "runs/search");
    const runId = pick(runs, "runs", 0, "info", "run_id");
    if (typeof runId === "string") return remoteRunOf(baseUrl, experiment, runId);
    const tags = [
      { key: JOB_TAG, value: jobId },
      { key: "verk.method", value: method },
      { key: "mlflow.source.name", value: "verk" },
      { key: "mlflow.runName", value: name },
    ];
    const run = { experiment_id: experiment, run_name: name, start_time: createdAt, tags };
    const created = accepted(await call({ path: `${API}/runs/create`, body: run, form: MLFLOW_RUNS }), "runs/create");
    return remoteRunOf(baseUrl, experiment, mustPick(created, "run", "info", "run_id"));
  },

  async has(call, remote) {
    const path = `${API}/runs/get?run_id=${encodeURIComponent(remote.id)}`;
    const run = accepted(await call({ path, form: MLFLOW_RUN }), "runs/get");
    const metrics = pick(run, "run", "data", "metrics");
    const newest = new Map<string, number>();
    for (const metric of Array.isArray(metrics) ? metrics : [])
      newest.set(String(pick(metric, "key")), Number(pick(metric, "step") ?? 0));
    return newest;
  },

  async sendParams(call, remote, params) {
    const all = Object.entries(params).map(([key, value]) => ({
      key: nameOf(key),
      value: value.slice(0, VALUE_LENGTH),
    }));
    for (let i = 0; i < all.length; i += PARAMS_AT_ONCE)
      await log(call, remote, { params: all.slice(i, i + PARAMS_AT_ONCE) });
  },

  async sendPoints(call, remote, points) {
    await log(call, remote, { metrics: points.flatMap(metricsOf) });
  },

  async sendState(call, remote, state, at) {
    const ended = state === "queued" || state === "running" ? {} : { end_time: at };
    const body = { run_id: remote.id, status: STATES[state], ...ended };
    accepted(await call({ path: `${API}/runs/update`, body }), "runs/update");
  },
};

const metricsOf = ({ step, time, values }: Point) =>
  Object.entries(values).map(([key, value]) => ({ key: nameOf(key), value, timestamp: time, step }));

/** The values that the tracker does not have yet. */
export function missing(points: readonly Point[], newest: ReadonlyMap<string, number>): Point[] {
  return points.flatMap((point) => {
    const values = Object.entries(point.values).filter(([key]) => point.step > (newest.get(nameOf(key)) ?? -1));
    return values.length === 0 ? [] : [{ ...point, values: Object.fromEntries(values) }];
  });
}
