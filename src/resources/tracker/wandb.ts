/**
 * The wire that Weights & Biases' own client speaks: a mutation that makes or changes a run by a name that we choose,
 * and a stream of lines with their offset. Both may be sent again and change nothing.
 */
import { accepted, type Call, mustPick, type Place, type Point, pick, type Tracker, TrackerError } from "./contract.ts";

const UPSERT = `mutation UpsertBucket($name: String!, $project: String, $entity: String, $displayName: String, $config: JSONString, $jobType: String) {
  upsertBucket(input: {name: $name, modelName: $project, entityName: $entity, displayName: $displayName, config: $config, jobType: $jobType}) {
    bucket { name project { name entity { name } } }
  }
}`;
const VIEWER = "query Viewer { viewer { id entity } }";

async function graphql(call: Call, query: string, variables: object): Promise<unknown> {
  const body = accepted(await call({ path: "/graphql", body: { query, variables } }), "graphql");
  const error = pick(body, "errors", 0, "message");
  if (error === undefined) return pick(body, "data");
  const denied = /permission|denied|unauthorized|not logged in/i.test(String(error));
  throw new TrackerError(denied ? "denied" : "refused", `graphql: ${String(error).slice(0, 300)}`);
}

/** `entity/project`, or a project of whoever the key belongs to. */
function partsOf(project: string): { entity: string | null; project: string } {
  const [first = "", second] = project.split("/");
  return second === undefined ? { entity: null, project: first } : { entity: first, project: second };
}

/** The service's pages have another host than its API; elsewhere they are one. */
const pagesOf = (baseUrl: string) => (baseUrl === "https://api.wandb.ai" ? "https://wandb.ai" : baseUrl);

/** Ours, so that a second try finds the first: letters and digits alone. */
const runName = (jobId: string) => jobId.replace(/^job_/, "");

async function stream(call: Call, place: Place, body: object): Promise<void> {
  const path = `/files/${place.project.split("/").map(encodeURIComponent).join("/")}/${place.id}/file_stream`;
  accepted(await call({ path, body }), "file_stream");
}

export const wandb: Tracker = {
  authorization: (secret) => `Basic ${Buffer.from(`api:${secret}`).toString("base64")}`,

  async check(call) {
    const viewer = pick(await graphql(call, VIEWER, {}), "viewer", "id");
    if (viewer === undefined || viewer === null) throw new TrackerError("denied", "The tracker does not know this key");
  },

  async open(call, { jobId, name, method, project }, baseUrl) {
    const variables = { name: runName(jobId), ...partsOf(project), displayName: name, jobType: method };
    const bucket = pick(await graphql(call, UPSERT, variables), "upsertBucket", "bucket");
    const entity = mustPick(bucket, "project", "entity", "name");
    const at = `${entity}/${mustPick(bucket, "project", "name")}`;
    const id = mustPick(bucket, "name");
    return { id, project: at, url: `${pagesOf(baseUrl)}/${at}/runs/${id}` };
  },

  async tellParams(call, place, params) {
    const config = Object.fromEntries(Object.entries(params).map(([key, value]) => [key, { value }]));
    const variables = { name: place.id, ...partsOf(place.project), config: JSON.stringify(config) };
    await graphql(call, UPSERT, variables);
  },

  async tellPoints(call, place, points, told) {
    const last = points.at(-1);
    if (!last) return;
    const history = { offset: told, content: points.map((point) => JSON.stringify(lineOf(point))) };
    const summary = { offset: 0, content: [JSON.stringify(lineOf(last))] };
    await stream(call, place, { files: { "wandb-history.jsonl": history, "wandb-summary.json": summary } });
  },

  async tellState(call, place, state) {
    if (state === "queued" || state === "running") return; // it sees that a run goes on by what comes
    await stream(call, place, { complete: true, exitcode: state === "completed" ? 0 : 1 });
  },

  beat: (call, place) => stream(call, place, {}),
};

const lineOf = ({ step, time, values }: Point) => ({ ...values, _step: step, _timestamp: time / 1000 });
