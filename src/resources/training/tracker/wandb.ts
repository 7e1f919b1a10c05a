/**
 * The protocol of Weights & Biases' own client: a mutation that creates or changes a run by a name that we choose, and
 * a stream of lines with their offset. Sending either again changes nothing.
 */
import {
  accepted,
  type Call,
  mustPick,
  type Point,
  pick,
  type RemoteRun,
  type Tracker,
  TrackerError,
} from "./contract.ts";
import { WANDB_ANSWER } from "./forms.ts";

const UPSERT = `mutation UpsertBucket($name: String!, $project: String, $entity: String, $displayName: String, $config: JSONString, $jobType: String) {
  upsertBucket(input: {name: $name, modelName: $project, entityName: $entity, displayName: $displayName, config: $config, jobType: $jobType}) {
    bucket { name project { name entity { name } } }
  }
}`;
const VIEWER = "query Viewer { viewer { id entity } }";

async function graphql(call: Call, query: string, variables: object): Promise<unknown> {
  const body = accepted(await call({ path: "/graphql", body: { query, variables }, form: WANDB_ANSWER }), "graphql");
  const error = pick(body, "errors", 0, "message");
  if (error === undefined) return pick(body, "data");
  const denied = /permission|denied|unauthorized|not logged in/i.test(String(error));
  throw new TrackerError(denied ? "denied" : "refused", `graphql: ${String(error).slice(0, 300)}`);
}

/** `entity/project`, or a project of the key's owner. */
function partsOf(project: string): { entity: string | null; project: string } {
  const [first = "", second] = project.split("/");
  return second === undefined ? { entity: null, project: first } : { entity: first, project: second };
}

/** The public service has its pages on another host than its API. */
const pagesOf = (baseUrl: string) => (baseUrl === "https://api.wandb.ai" ? "https://wandb.ai" : baseUrl);

/** We choose the name, so that a retry finds the first run. Letters and digits only. */
const runName = (jobId: string) => jobId.replace(/^job_/, "");

async function stream(call: Call, remote: RemoteRun, body: object): Promise<void> {
  const path = `/files/${remote.project.split("/").map(encodeURIComponent).join("/")}/${remote.id}/file_stream`;
  accepted(await call({ path, body }), "file_stream");
}

export const wandb: Tracker = {
  authorization: (secret) => `Basic ${Buffer.from(`api:${secret}`).toString("base64")}`,

  async check(call) {
    const viewer = pick(await graphql(call, VIEWER, {}), "viewer", "id");
    if (viewer === undefined || viewer === null)
      throw new TrackerError("denied", "The tracker does not accept this key. Check the secret");
  },

  async open(call, { jobId, name, method, project }, baseUrl) {
    const variables = { name: runName(jobId), ...partsOf(project), displayName: name, jobType: method };
    const bucket = pick(await graphql(call, UPSERT, variables), "upsertBucket", "bucket");
    const entity = mustPick(bucket, "project", "entity", "name");
    const at = `${entity}/${mustPick(bucket, "project", "name")}`;
    const id = mustPick(bucket, "name");
    return { id, project: at, url: `${pagesOf(baseUrl)}/${at}/runs/${id}` };
  },

  async sendParams(call, remote, params) {
    const config = Object.fromEntries(Object.entries(params).map(([key, value]) => [key, { value }]));
    const variables = { name: remote.id, ...partsOf(remote.project), config: JSON.stringify(config) };
    await graphql(call, UPSERT, variables);
  },

  async sendPoints(call, remote, points, sent) {
    const last = points.at(-1);
    if (!last) return;
    const history = { offset: sent, content: points.map((point) => JSON.stringify(lineOf(point))) };
    const summary = { offset: 0, content: [JSON.stringify(lineOf(last))] };
    await stream(call, remote, { files: { "wandb-history.jsonl": history, "wandb-summary.json": summary } });
  },

  async sendState(call, remote, state) {
    if (state === "queued" || state === "running") return; // a run that receives lines counts as running
    await stream(call, remote, { complete: true, exitcode: state === "completed" ? 0 : 1 });
  },

  beat: (call, remote) => stream(call, remote, {}),
};

const lineOf = ({ step, time, values }: Point) => ({ ...values, _step: step, _timestamp: time / 1000 });
