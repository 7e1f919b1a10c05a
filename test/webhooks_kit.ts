import { join } from "node:path";
import type { Ctx } from "../src/context.ts";
import { lastSeq } from "../src/events/consume.ts";
import { emit } from "../src/events/emit.ts";
import { newId } from "../src/lib/ids.ts";
import { mintSecret } from "../src/lib/webhooks/signature.ts";
import type { Clock } from "../src/platform/clock.ts";
import { loadConfig } from "../src/platform/config/config.ts";
import { closeDb, write } from "../src/platform/db/db.ts";
import { failpoint, failpoints } from "../src/platform/failpoint.ts";
import { createLog } from "../src/platform/log.ts";
import type { Dial } from "../src/platform/network/http_client.ts";
import { createSecretBox } from "../src/platform/secrets.ts";
import { workspaces } from "../src/resources/access/workspaces/table.ts";
import { LIMITS } from "../src/resources/watching/webhooks/delivery/fairness.ts";
import { WebhooksState } from "../src/resources/watching/webhooks/delivery/live.ts";
import { sealSecrets } from "../src/resources/watching/webhooks/sealing.ts";
import { type EndpointRow, webhookDeliveries, webhookEndpoints } from "../src/resources/watching/webhooks/table.ts";
import { newState } from "../src/state.ts";
import { Crash, type TestApp } from "./harness.ts";
import { openMigrated } from "./template_db.ts";

const MASTER = new Uint8Array(32).fill(7);
export const WORKSPACE = "ws_1";

type RigOptions = { dir: string; clock: Clock; dial: Dial; wake?: () => void; limits?: typeof LIMITS };

/** A server of webhooks alone, quick to open. Opening the same `dir` again is a restart. */
export function openRig({ dir, clock, dial, wake = () => {}, limits = LIMITS }: RigOptions) {
  const db = openMigrated(dir);
  const config = loadConfig({ env: { HOME: dir }, flags: { data_dir: dir } });
  const log = createLog({ level: "error", write: () => {} });
  const secrets = createSecretBox(MASTER);
  const closing = new AbortController().signal;
  const state = { ...newState({ config, clock }), webhooks: new WebhooksState(limits) };
  const ctx = { config, db, clock, log, secrets, wake, dial, closing, state } as unknown as Ctx; // all that webhooks reach
  const now = clock.now();
  const made = { createdAt: now, updatedAt: now };
  const workspace = {
    id: WORKSPACE,
    name: "lab",
    status: "active" as const,
    paymentCustomerId: "cus_1",
    metadata: {},
    ...made,
  };
  write(db, (tx) => void tx.insert(workspaces).values(workspace).onConflictDoNothing().run());
  return {
    ctx,
    /** Nothing more is sent or written, like after a kill. */
    async close() {
      await state.webhooks.abort(new Error("killed"));
      closeDb(db);
    },
  };
}
export type Rig = ReturnType<typeof openRig>;

type NewEndpoint = Partial<Pick<EndpointRow, "id" | "url" | "eventTypes" | "workspaceId">>;

/** Past the guard of the route. */
export function addEndpoint(ctx: Ctx, given: NewEndpoint = {}): { id: string; secret: string } {
  const now = ctx.clock.now();
  const id = given.id ?? newId("whk", now);
  const secret = mintSecret();
  const row: EndpointRow = {
    id,
    workspaceId: WORKSPACE,
    url: `https://${id.replaceAll("_", "-")}.example/hook`,
    description: null,
    eventTypes: [],
    secrets: sealSecrets(ctx, id, { current: secret, replaced: [] }),
    status: "enabled",
    consecutiveFailures: 0,
    disabledAt: null,
    disabledReason: null,
    metadata: {},
    afterSeq: lastSeq(ctx.db),
    createdAt: now,
    updatedAt: now,
    deletedAt: null,
    scheme: "standard",
    ...given,
  };
  write(ctx.db, (tx) => void tx.insert(webhookEndpoints).values(row).run());
  return { id, secret };
}

export const emitCompleted = (ctx: Ctx, workspaceId = WORKSPACE): string =>
  write(ctx.db, (tx) => {
    const data = { object: "job" as const, id: "job_1", status: "completed", model: "verk-tiny" };
    return emit(tx, "job.completed", { workspaceId, now: ctx.clock.now() }, data);
  });

export const answerOf = (status: number, headers: Record<string, string> = {}) => ({
  status,
  headers: new Headers(headers),
  body: new Uint8Array(),
  truncated: false,
  address: "192.0.2.1",
});

/** A network that passes the points where a process may die, before a request and after its answer. */
export const fragile =
  (dial: Dial): Dial =>
  async (url, request) => {
    failpoint("http.before_send");
    const answer = await dial(url, request);
    failpoint("http.after_send");
    return answer;
  };

/** Dies at the n-th failpoint from now: that one throws and so does every one after it, so nothing is written any more. */
export function dieAt(n: number): { isDead: () => boolean; where: () => string; revive: () => void } {
  let left = n;
  let where = "";
  failpoints.hit = (name) => {
    if (--left > 0) return;
    where ||= name;
    throw new Crash(name);
  };
  return { isDead: () => left <= 0, where: () => where, revive: () => void delete failpoints.hit };
}

const TLS = join(import.meta.dir, "fixtures/tls");
/** For a server that may send to the receivers below. */
export const TLS_FLAGS = { "network.allow": ["127.0.0.1"], "network.ca_file": join(TLS, "ca.pem") };
export const TLS_SERVER = { cert: Bun.file(join(TLS, "server.pem")), key: Bun.file(join(TLS, "server.key")) };

export type Got = { path: string; headers: Headers; body: string; port: number | undefined };
type Reply = (got: Got, count: number) => Response | Promise<Response>;

/** A real receiver over TLS on a free port of this machine. */
export function startTlsReceiver(reply: Reply = () => new Response(null, { status: 204 }), port = 0) {
  const got: Got[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port,
    tls: TLS_SERVER,
    async fetch(request, self) {
      const port = self.requestIP(request)?.port; // of the connection
      const item = { path: new URL(request.url).pathname, headers: request.headers, body: await request.text(), port };
      got.push(item);
      return reply(item, got.length - 1);
    },
  });
  return { url: `https://127.0.0.1:${server.port}`, got, stop: () => server.stop(true) };
}

export const NOWHERE = "https://203.0.114.7/hook"; // public; no test connects to it

/** The routes, of the application there is at that moment. */
export function callsOf(current: () => TestApp) {
  const post = (path = "", json?: unknown, headers: Record<string, string> = {}) =>
    current().call("POST", `/v1/webhooks${path}`, json, { headers });
  return {
    post,
    make: async (more: object = {}) => (await post("", { url: NOWHERE, ...more })).body,
    get: async (path: string) => (await current().call("GET", `/v1/webhooks/${path}`)).body,
    patch: (id: string, json: object) => current().call("PATCH", `/v1/webhooks/${id}`, json),
    rows: () => current().ctx.db.select().from(webhookDeliveries).all(),
  };
}
