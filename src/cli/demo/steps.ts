import { generateKeyPairSync } from "node:crypto";
import { join } from "node:path";
import { formatBytes } from "../../lib/bytes.ts";
import { createClient } from "../client.ts";
import { NATIVE_KINDS, probeInChild, versionsOf } from "../native_probe.ts";
import * as datasets from "./datasets.ts";
import * as detection from "./detection.ts";
import * as rewards from "./rewards.ts";
import { runCommand, startDemoServer } from "./server.ts";
import * as serving from "./serving.ts";
import { TRAINING_STEPS } from "./training_steps.ts";
import { clientOf, expect, made, type Step, serverOf, type Walk } from "./walk.ts";

type Named = { id: string; name: string };
type List<T> = { data: T[]; has_more: boolean };

const SECRET = { name: "DEMO_TOKEN", value: "not-so-secret-4711" };
const RETRY = { "idempotency-key": "demo-retry" };
const EXPECTED = ["api_key.created", "secret.created", "ssh_key.created", "dataset.snapshot_created"];

export const STEPS: readonly Step[] = [
  { title: "start the server", run: start },
  { title: "create an admin key while the server runs", run: makeAdminKey },
  { title: "create a workspace", run: createWorkspace },
  { title: "create a key for it", run: makeKey },
  { title: "follow the event stream", run: followEvents },
  { title: "store a secret", run: storeSecret },
  { title: "store an SSH key pair", run: storeSshKey },
  { title: "retry a request without creating a duplicate", run: retryCreation },
  { title: "list the regions", run: listRegions },
  { title: "push a file of rows", run: pushRows },
  {
    title: "append a row, supersede another",
    run: (walk) => datasets.append(clientOf(walk), made(walk, "datasetId")),
  },
  { title: "cut a snapshot", run: cutSnapshot },
  { title: "pull the snapshot", run: (walk) => datasets.pull(clientOf(walk), made(walk, "saved"), walk.signal) },
  { title: "upload a reward function, wrong and then right", run: (walk) => rewards.upload(clientOf(walk)) },
  { title: "run it over a few rows", run: (walk) => rewards.run(clientOf(walk)) },
  { title: "run a command in a session", run: (walk) => rewards.session(clientOf(walk), walk.signal) },
  { title: "see the events arrive", run: seeEvents },
  { title: "kill -9 and restart on the same data", run: killAndRestart },
  { title: "deploy the built-in model", run: deploy },
  { title: "chat with it", run: (walk) => serving.chat(clientOf(walk), made(walk, "deploymentId")) },
  { title: "stream from it", run: (walk) => serving.streamed(clientOf(walk), made(walk, "deploymentId"), walk.signal) },
  ...TRAINING_STEPS,
  {
    title: "detect whether an image was generated",
    run: (walk) => detection.detect(serverOf(walk).url, made(walk, "key"), walk.signal),
  },
  { title: "kill -9 under both: they serve again", run: killUnderDeployments },
  ...NATIVE_KINDS.map((kind) => ({
    title: `self-test of the ${kind} library`,
    run: (walk: Walk) => selfTest(kind, walk),
  })),
  { title: "stop the server", run: stop },
];

async function start(walk: Walk) {
  walk.server = await startDemoServer(walk);
  return `${walk.server.url}, pid ${walk.server.pid}`;
}

async function makeAdminKey(walk: Walk) {
  const apiKey = await runCommand<{ id: string; key: string }>(
    walk,
    "keys",
    "create",
    "--name",
    "admin",
    "--scope",
    "admin",
  );
  walk.adminKey = apiKey.key;
  return apiKey.id;
}

async function createWorkspace(walk: Walk) {
  const admin = createClient({ url: serverOf(walk).url, key: made(walk, "adminKey") });
  const { body } = await admin.call<Named>("POST", "/v1/workspaces", { name: "demo" });
  walk.workspaceId = body.id;
  return body.id;
}

async function makeKey(walk: Walk) {
  const apiKey = await runCommand<{ id: string; key: string }>(
    walk,
    "keys",
    "create",
    "--workspace",
    "demo",
    "--name",
    "demo",
  );
  walk.key = apiKey.key;
  return apiKey.id;
}

async function followEvents(walk: Walk) {
  const events = clientOf(walk).stream("/v1/events?stream=1", walk.signal);
  const first = await events.next();
  expect(!first.done, "the stream ended before its first event");
  walk.events.push(first.value);
  void (async () => {
    for await (const event of events) walk.events.push(event);
  })().catch(() => {}); // the stream ends when the server is killed
  return `first: ${first.value.event}`;
}

async function storeSecret(walk: Walk) {
  const client = clientOf(walk);
  await client.call("PUT", `/v1/secrets/${SECRET.name}`, { value: SECRET.value });
  const { body } = await client.call<Named>("GET", `/v1/secrets/${SECRET.name}`);
  expect(!JSON.stringify(body).includes(SECRET.value), "the API returned the value");
  return `${body.name}; the API never returns its value`;
}

async function storeSshKey(walk: Walk) {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const raw = Buffer.from(publicKey.export({ format: "jwk" }).x ?? "", "base64url");
  const field = (bytes: Uint8Array) => Buffer.concat([Buffer.from([0, 0, 0, bytes.length]), bytes]);
  const line = Buffer.concat([field(Buffer.from("ssh-ed25519")), field(raw)]).toString("base64");
  const { body } = await clientOf(walk).call<{ id: string; fingerprint: string }>("POST", "/v1/ssh_keys", {
    name: "demo",
    public_key: `ssh-ed25519 ${line}`,
    private_key: privateKey.export({ type: "pkcs8", format: "pem" }),
  });
  expect(!("private_key" in body), "the API returned the private key");
  return body.fingerprint;
}

async function retryCreation(walk: Walk) {
  const send = () =>
    clientOf(walk).call<Named & { key?: string }>("POST", "/v1/api_keys", { name: "retried" }, { headers: RETRY });
  const [first, second] = [await send(), await send()];
  expect(first.body.id === second.body.id, "the retry created another key");
  expect(first.body.key !== undefined && second.body.key === undefined, "the retry shows the key again");
  return `${first.body.id} both times`;
}

async function listRegions(walk: Walk) {
  const { body } = await clientOf(walk).call<List<{ id: string; gpu_types: string[] }>>("GET", "/v1/regions");
  expect(body.data.length > 0, "there is no region");
  return body.data
    .map(({ id, gpu_types }) => `${id}: ${gpu_types.length > 0 ? gpu_types.join(", ") : "CPU"}`)
    .join("; ");
}

async function pushRows(walk: Walk) {
  const { id, detail } = await datasets.push(clientOf(walk));
  walk.datasetId = id;
  return detail;
}

async function cutSnapshot(walk: Walk) {
  walk.saved = await datasets.snapshot(clientOf(walk), made(walk, "datasetId"));
  const { id, row_count, size_bytes } = walk.saved.snapshot;
  return `${id}, ${row_count} rows, ${formatBytes(size_bytes)}`;
}

async function seeEvents({ events, signal }: Walk) {
  const deadline = performance.now() + 10_000;
  const lacking = () => EXPECTED.filter((type) => !events.some(({ event }) => event === type));
  while (lacking().length > 0) {
    expect(performance.now() < deadline && !signal.aborted, `these events did not arrive: ${lacking().join(", ")}`);
    await Bun.sleep(5);
  }
  return `${events.length} events`;
}

/** After a kill, everything acknowledged must exist, exactly once. */
async function killAndRestart(walk: Walk) {
  const before = await clientOf(walk).call<List<{ id: string }>>("GET", "/v1/events?limit=100");
  await serverOf(walk).kill("SIGKILL");
  const startedAt = performance.now();
  walk.server = await startDemoServer(walk);
  const ms = Math.round(performance.now() - startedAt);
  const client = clientOf(walk);
  const keys = await client.call<List<Named>>("GET", "/v1/api_keys");
  const names = keys.body.data.map(({ name }) => name).sort();
  expect(names.join() === "demo,retried", `the keys are ${names.join()}`);
  await client.call("GET", `/v1/secrets/${SECRET.name}`);
  const sshKeys = await client.call<List<Named>>("GET", "/v1/ssh_keys");
  expect(sshKeys.body.data.length === 1, `there are ${sshKeys.body.data.length} SSH keys`);
  const again = await client.call<Named>("POST", "/v1/api_keys", { name: "retried" }, { headers: RETRY });
  expect(
    keys.body.data.some(({ id }) => id === again.body.id),
    "a retry after the restart created another key",
  );
  await datasets.pull(client, made(walk, "saved"), walk.signal);
  const after = await client.call<List<{ id: string }>>("GET", "/v1/events?limit=100");
  expect(JSON.stringify(after.body.data) === JSON.stringify(before.body.data), "the event log changed");
  return `ready again after ${ms} ms, ${after.body.data.length} events, nothing lost`;
}

async function deploy(walk: Walk) {
  const { id, detail } = await serving.deployTiny(clientOf(walk), walk.signal);
  walk.deploymentId = id;
  return detail;
}

async function killUnderDeployments(walk: Walk) {
  await serverOf(walk).kill("SIGKILL");
  walk.server = await startDemoServer(walk);
  const client = clientOf(walk);
  const ids = [made(walk, "deploymentId"), made(walk, "resultId")];
  const startedAt = performance.now();
  for (const id of ids) await serving.untilServing(client, id, walk.signal);
  const ms = performance.now() - startedAt;
  await serving.chat(client, made(walk, "deploymentId"));
  for (const id of ids) await client.call("POST", `/v1/deployments/${id}/stop`);
  return `served again ${Math.round(ms)} ms after the restart, then stopped`;
}

async function selfTest(kind: (typeof NATIVE_KINDS)[number], walk: Walk) {
  const report = await probeInChild(kind, join(walk.dir, "data"), walk);
  expect(report.ok, report.error ?? "the self-test failed");
  return versionsOf(report);
}

async function stop(walk: Walk) {
  const { code, signal } = await serverOf(walk).kill("SIGTERM");
  expect(code === 0, `the server ended with ${signal ?? `exit code ${code}`}`);
  delete walk.server;
  return "exit code 0";
}
