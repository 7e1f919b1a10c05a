import { eq } from "drizzle-orm";
import * as moves from "../../src/resources/serving/deployments/fleet/moves.ts";
import { deployments } from "../../src/resources/serving/deployments/table.ts";
import { tarGz } from "../archives.ts";
import type { TestApp } from "../harness.ts";
import type { Browser } from "../people_kit.ts";
import { pretendServing } from "../pretend_replica.ts";
import { sshKeypair } from "../ssh_keypair.ts";
import { ANNOTATIONS } from "./journey_annotations.ts";
import { BILLING, spend } from "./journey_billing.ts";
import { clientSteps } from "./journey_clients.ts";
import { endPushes, useMachine } from "./journey_clouds.ts";
import { DATASETS, readSources } from "./journey_datasets.ts";
import { DETECTION, runDetection } from "./journey_detection.ts";
import { EVALUATORS } from "./journey_evaluators.ts";
import { EXPERIMENTS, endExperiments } from "./journey_experiments.ts";
import { JOBS, runJobs } from "./journey_jobs.ts";
import { MODELS, pushed } from "./journey_models.ts";
import { AGENTS, evaluateMonitors, MONITORS } from "./journey_monitors.ts";
import { PEOPLE } from "./journey_people.ts";
import { PUBLICITY } from "./journey_publicity.ts";
import { REWARDS } from "./journey_rewards.ts";
import { endRollout, ROLLOUTS } from "./journey_rollouts.ts";
import { endSessions, SESSIONS } from "./journey_sessions.ts";
import { TRACES } from "./journey_traces.ts";
import { VOLUMES } from "./journey_volumes.ts";
import { toggleEndpoint, WEBHOOKS } from "./journey_webhooks.ts";

/**
 * One successful call of every operation, in an order that works. The meta tests play them, and a new route without a line
 * here fails them. `own` creates the objects of the path in the caller's workspace; another workspace must not see them.
 */
export type Step = {
  operation: string;
  json?: unknown;
  /** JSON that names something which has to be made first. */
  make?: (app: TestApp) => Promise<unknown>;
  /** A body that is not JSON; `form` is one of fields and files. */
  body?: string | FormData;
  /** The answer is a plain array or map without `object`. */
  plain?: true;
  /** The answer is not JSON. */
  bytes?: true;
  /** Fills the path's parameters; `?` is a query to go with it. Absent: the path has none. */
  own?: (app: TestApp) => Promise<Record<string, string>>;
  as?: "admin";
  /** Things that belong to the installation, not to a workspace: every caller may see them. */
  shared?: true;
  raw?: true;
  /** Called with the cookie of a browser session instead of a key. */
  session?: true;
  /** Called by a browser that has signed in as a user. */
  browser?: (app: TestApp) => Promise<Browser>;
};

const KEYPAIR = await sshKeypair();
const idOf = async (app: TestApp, path: string, json: unknown, key?: string) => {
  const { body } = await app.call("POST", path, json, key === undefined ? {} : { key });
  return { id: body.id as string };
};
const unique = () => `n${crypto.randomUUID()}`;
const workspace = (app: TestApp) => idOf(app, "/v1/workspaces", { name: unique() }, app.adminKey);
const apiKey = (app: TestApp) => idOf(app, "/v1/api_keys", { name: "k" });
const sshKey = (app: TestApp) => idOf(app, "/v1/ssh_keys", { name: unique(), ...KEYPAIR });
const HOST_KEY = KEYPAIR.public_key.split(" ").slice(0, 2).join(" ");
const regionOf = async (app: TestApp) => ({
  name: unique(),
  kind: "ssh",
  address: "node.example.com",
  user: "verk",
  host_key: HOST_KEY,
  ssh_key_id: (await sshKey(app)).id,
});
/** Nothing listens at port 9 of this machine. */
const checkOf = async (app: TestApp) => {
  const { name: _, ...check } = await regionOf(app);
  return { ...check, address: "127.0.0.1", port: 9 };
};
const checkable = async (app: TestApp) =>
  idOf(app, "/v1/regions", { ...(await regionOf(app)), address: "127.0.0.1", port: 9 });
const region = async (app: TestApp) => idOf(app, "/v1/regions", await regionOf(app));
const secret = async (app: TestApp) => {
  await app.call("PUT", "/v1/secrets/TOKEN", { value: "v" });
  return { name: "TOKEN" };
};

const archive = () => {
  const form = new FormData();
  form.set("file", new Blob([tarGz({ name: unique(), content: "x" })]), "code.tar.gz");
  return form;
};
const artifact = async (app: TestApp) => {
  const { body } = await app.call("POST", "/v1/code_artifacts", undefined, { raw: archive() });
  return { id: body.id as string };
};

const deployment = (app: TestApp, name = unique()) => idOf(app, "/v1/deployments", { model: "journey/served", name });
const serving = async (app: TestApp, name = "d") => {
  const { data } = (await app.call("GET", "/v1/deployments?status=serving")).body;
  const known = data.find(({ parked }: { parked: boolean }) => !parked);
  if (known) return { id: known.id as string };
  const made = await deployment(app, name);
  pretendServing(app, made.id);
  return made;
};
const stopped = async (app: TestApp) => {
  const made = await deployment(app);
  await app.call("POST", `/v1/deployments/${made.id}/stop`);
  return made;
};
const parked = async (app: TestApp) => {
  const made = await deployment(app);
  pretendServing(app, made.id);
  moves.park(app.ctx, made.id);
  return made;
};
const MESSAGES = [{ role: "user", content: "hi" }];
const nothing = async (app: TestApp) => {
  await serving(app);
  return {};
};

export const JOURNEY: Step[] = [
  { operation: "GET /healthz", shared: true },
  { operation: "GET /readyz", shared: true },
  { operation: "GET /version", shared: true },
  { operation: "GET /v1/system/checks", as: "admin" },
  { operation: "POST /setup", shared: true, raw: true },
  { operation: "POST /v1/workspaces", as: "admin", json: { name: "journey" } },
  { operation: "GET /v1/workspaces", as: "admin" },
  { operation: "GET /v1/workspaces/{id}", as: "admin", own: workspace },
  { operation: "PATCH /v1/workspaces/{id}", as: "admin", own: workspace, json: { metadata: { a: "b" } } },
  { operation: "POST /v1/workspaces/{id}/suspend", as: "admin", own: workspace },
  {
    operation: "POST /v1/workspaces/{id}/resume",
    as: "admin",
    own: async (app) => {
      const made = await workspace(app);
      await app.call("POST", `/v1/workspaces/${made.id}/suspend`, undefined, { key: app.adminKey });
      return made;
    },
  },
  { operation: "DELETE /v1/workspaces/{id}", as: "admin", own: workspace },
  { operation: "GET /v1/account" },
  { operation: "PATCH /v1/account", json: { metadata: { a: "b" } } },
  { operation: "POST /v1/api_keys", json: { name: "ci" } },
  { operation: "GET /v1/api_keys" },
  { operation: "POST /v1/api_keys/{id}/rotate", own: apiKey, json: {} },
  { operation: "DELETE /v1/api_keys/{id}", own: apiKey },
  { operation: "POST /v1/browser_sessions" },
  { operation: "GET /v1/browser_sessions/current", session: true },
  { operation: "DELETE /v1/browser_sessions/current", session: true },
  ...PEOPLE,
  { operation: "POST /v1/ssh_keys", json: { name: "node", ...KEYPAIR } },
  { operation: "GET /v1/ssh_keys" },
  { operation: "GET /v1/ssh_keys/{id}", own: sshKey },
  { operation: "DELETE /v1/ssh_keys/{id}", own: sshKey },
  { operation: "PUT /v1/secrets/{name}", own: async () => ({ name: "NEW" }), json: { value: "v" }, shared: true },
  { operation: "PUT /v1/secrets/{name}", own: secret, json: { value: "w" }, shared: true },
  { operation: "GET /v1/secrets" },
  { operation: "GET /v1/secrets/{name}", own: secret },
  { operation: "DELETE /v1/secrets/{name}", own: secret },
  ...BILLING,
  { operation: "GET /v1/cost/summary" },
  { operation: "GET /v1/cost/by_provider", plain: true },
  { operation: "GET /v1/cost/by_gpu", plain: true },
  { operation: "GET /v1/cost/by_day", plain: true },
  { operation: "GET /v1/cost/by_use" },
  { operation: "GET /v1/settings", as: "admin", shared: true },
  {
    operation: "PATCH /v1/settings/{name}",
    as: "admin",
    shared: true,
    own: async () => ({ name: "sessions.max_per_workspace" }),
    json: { value: 17 },
  },
  { operation: "GET /v1/cost/estimate" },
  { operation: "GET /v1/cost/monthly_projection" },
  { operation: "GET /v1/cost/compare", plain: true },
  { operation: "GET /v1/cost/rates", plain: true },
  { operation: "GET /v1/regions" },
  { operation: "POST /v1/regions", make: regionOf },
  { operation: "GET /v1/regions/{id}", own: region },
  { operation: "POST /v1/regions/{id}/checks", own: checkable },
  { operation: "POST /v1/regions/checks", make: checkOf },
  { operation: "DELETE /v1/regions/{id}", own: region },
  { operation: "GET /v1/machines" },
  ...MODELS,
  ...VOLUMES,
  ...DATASETS,
  ...ANNOTATIONS,
  { operation: "POST /v1/code_artifacts", body: archive() },
  { operation: "GET /v1/code_artifacts" },
  { operation: "GET /v1/code_artifacts/{id}", own: artifact },
  { operation: "GET /v1/code_artifacts/{id}/content", own: artifact, bytes: true },
  { operation: "DELETE /v1/code_artifacts/{id}", own: artifact },
  ...SESSIONS,
  ...WEBHOOKS,
  ...DETECTION,
  ...PUBLICITY,
  ...REWARDS,
  ...EVALUATORS,
  ...JOBS,
  ...EXPERIMENTS,
  { operation: "POST /v1/deployments", json: { model: "journey/served", name: "journey" } },
  { operation: "GET /v1/deployments" },
  { operation: "GET /v1/deployments/{id}", own: deployment },
  { operation: "PATCH /v1/deployments/{id}", own: deployment, json: { idle_timeout_seconds: 60 } },
  { operation: "DELETE /v1/deployments/{id}", own: stopped },
  { operation: "POST /v1/deployments/{id}/stop", own: deployment },
  { operation: "POST /v1/deployments/{id}/start", own: stopped },
  { operation: "POST /v1/deployments/{id}/park", own: parked },
  { operation: "POST /v1/deployments/{id}/wake", own: parked },
  { operation: "GET /v1/deployments/{id}/requests", own: deployment },
  { operation: "GET /v1/deployments/{id}/metrics", own: deployment },
  { operation: "GET /v1/deployments/{id}/traffic", own: deployment },
  { operation: "GET /v1/deployments/{id}/live", own: deployment },
  { operation: "GET /v1/deployments/{id}/logs", own: deployment },
  { operation: "GET /v1/deployments/{id}/models", own: deployment },
  {
    operation: "POST /v1/deployments/{id}/chat/completions",
    own: serving,
    json: { model: "d", messages: MESSAGES },
  },
  { operation: "POST /v1/deployments/{id}/completions", own: serving, json: { model: "d", prompt: "hi" } },
  { operation: "POST /v1/deployments/{id}/embeddings", own: serving, json: { model: "d", input: "hi" } },
  { operation: "POST /v1/chat/completions", own: nothing, json: { model: "d", messages: MESSAGES } },
  { operation: "POST /v1/completions", own: nothing, json: { model: "d", prompt: "hi" } },
  { operation: "POST /v1/embeddings", own: nothing, json: { model: "d", input: "hi" } },
  ...clientSteps(nothing, serving),
  ...TRACES,
  ...ROLLOUTS,
  ...MONITORS,
  ...AGENTS,
  { operation: "GET /v1/gpu" },
  { operation: "GET /v1/gpu/availability" },
  { operation: "GET /v1/metrics", bytes: true },
  { operation: "GET /v1/events" },
];

/** Changes that happen without a call: a source is read, a replica fails, an idle deployment is parked. */
export async function meanwhile(app: TestApp) {
  await readSources(app);
  endSessions(app);
  await toggleEndpoint(app);
  spend(app);
  await runJobs(app);
  await endExperiments(app);
  await runDetection(app);
  await evaluateMonitors(app);
  await endRollout(app);
  useMachine(app, (await region(app)).id);
  endPushes(app, (await pushed(app)).id, (await pushed(app)).id);
  const { id } = await deployment(app);
  pretendServing(app, id);
  const next = { model: "next", modelId: null, source: "hub", checkpoint: null } as const;
  for (const end of [moves.dropSwitch, moves.completeSwitch]) {
    app.ctx.db.update(deployments).set({ nextModel: next }).where(eq(deployments.id, id)).run();
    end(app.ctx, id, null, "no memory");
  }
  for (const step of ["park", "sicken", "fail"] as const) moves.move(app.ctx, id, step);
}

export async function play(app: TestApp, step: Step, key?: string | null) {
  const [method, template] = step.operation.split(" ") as [string, string];
  const names = (await step.own?.(app)) ?? {};
  const json = (await step.make?.(app)) ?? step.json;
  const path = template.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(names[name] ?? "missing"));
  const own = step.as === "admin" ? app.adminKey : app.keyA;
  const raw = step.body === undefined ? {} : { raw: step.body };
  if (step.browser) return (await step.browser(app)).call(method, path, json);
  const given = step.session
    ? { key: null, headers: await sessionHeaders(app, own) }
    : { key: key === undefined ? own : key };
  return app.call(method, path + (names["?"] ?? ""), json, { ...given, ...raw });
}

/** Headers of a page that has signed in with `key`. */
async function sessionHeaders(app: TestApp, key: string): Promise<Record<string, string>> {
  const { body, headers } = await app.call("POST", "/v1/browser_sessions", undefined, { key });
  const cookie = headers.getSetCookie().map((each) => each.split(";")[0]);
  return { cookie: cookie.join("; "), "sec-fetch-site": "same-origin", "x-verk-csrf": body.csrf_token };
}
