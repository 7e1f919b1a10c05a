// tier: all (sweeps of faults)
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { Stopped, startBinary } from "../binary.ts";
import { makeKey, program } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { randomFor, SEED, sweep } from "../sweep.ts";
import { violations } from "./invariants.ts";

/**
 * The executable is killed at commits, flushes, renames and spawns while jobs and deployments are charged. The ledger
 * must have the use that the events show, once.
 */
const KILLS = sweep({ quick: 2, full: 10 });
setDefaultTimeout(60_000 * (1 + KILLS));
const env = {
  VERK_BILLING__LOCAL_RATE_USD_PER_HOUR: "1234.567891",
  VERK_BILLING__INITIAL_CREDIT_USD: "1000000",
  VERK_TRAINING__THREADS: "1",
  VERK_HTTP__RATE_LIMIT_PER_SECOND: "0",
};
const dir = tempDir();
const starts: number[] = [];
let server: Awaited<ReturnType<typeof startBinary>>;
let [key, adminKey, dataset, customer] = ["", "", "", ""];

async function start(failpoint?: string) {
  starts.push(Date.now());
  server = await startBinary({ dir, env: { ...env, ...(failpoint ? { VERK_FAILPOINT: failpoint } : {}) } });
}
const isDead = () => server.child.exitCode !== null || server.child.signalCode !== null;

type Sent = { as?: string; headers?: Record<string, string> };
// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the server answered
async function call(method: string, path: string, body?: object, { as = key, headers = {} }: Sent = {}): Promise<any> {
  const json: Record<string, string> =
    body === undefined || body instanceof FormData ? {} : { "content-type": "application/json" };
  const response = await fetch(`${server.url}/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${as}`, ...json, ...headers },
    ...(body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`);
  return answer;
}

beforeAll(async () => {
  await start();
  key = (await makeKey(dir)).key;
  adminKey = (await makeKey(dir, "--scope", "admin")).key;
  customer = (await call("GET", "/account")).payment_customer_id;
  const form = new FormData();
  form.set("name", "sums");
  const rows = Array.from(
    { length: 8 },
    (_, i) => `${JSON.stringify({ prompt: `${i} + 1 =`, completion: `${i + 1}` })}\n`,
  );
  form.set("file", new File(rows, "sums.jsonl"));
  dataset = (await call("POST", "/datasets", form)).id;
  await server.kill("SIGTERM");
});
afterAll(async () => {
  await server.kill();
  rmSync(dir, { recursive: true, force: true });
});

const JOB = {
  base_model: "verk-tiny",
  method: "sft",
  hyperparameters: { max_steps: 2, per_device_train_batch_size: 4 },
};
const busy = async () =>
  (await call("GET", "/training_jobs?limit=100")).data.some((job: { completed_at: unknown }) => !job.completed_at);

/** Runs a job and a deployment until the server dies or both have ended. */
async function live(round: number) {
  const grant = { payment_customer_id: customer, amount_usd: 0.25 };
  await call("POST", "/billing/grants", grant, { as: adminKey, headers: { "idempotency-key": `round-${round}` } });
  await call("POST", "/training_jobs", { ...JOB, dataset });
  const { id } = await call("POST", "/deployments", { model: "verk-tiny", name: `d${round}` });
  await until(
    "it to serve",
    async () => isDead() || (await call("GET", `/deployments/${id}`)).status === "serving",
    60_000,
  );
  await until("the jobs to end", async () => isDead() || !(await busy()), 60_000);
  await call("POST", `/deployments/${id}/stop`);
}

type Entry = { id: string; subject: string; key: string; ms: number; rate: number; micros: number; at: number };
type EventRow = { subject: string; type: string; at: number };
const BEGINS = ["job.provisioning", "deployment.serving"];
const NEXT = [...BEGINS, "job.completed", "job.failed", "job.requeued", "deployment.stopped"];

/** Errors in the ledger, found from the files alone. */
function ledgerErrors(): string[] {
  const db = new Database(join(dir, "verk.db"), { readonly: true });
  const entries = db
    .query(
      "SELECT id, subject_id AS subject, window_key AS key, usage_ms AS ms, rate_micros AS rate, amount_micros AS micros, created_at AS at FROM ledger_entries WHERE kind = 'charge' ORDER BY rowid",
    )
    .all() as Entry[];
  const events = db
    .query("SELECT subject_id AS subject, type, created_at AS at FROM events ORDER BY seq")
    .all() as EventRow[];
  db.close();
  const bad = violations(dir);
  for (const subject of new Set(entries.map((each) => each.subject))) {
    let [used, owed, paid] = [0, 0n, 0n];
    for (const { key, ms, rate, micros } of entries.filter((each) => each.subject === subject)) {
      if (key !== `${subject}/${used}`) bad.push(`${key} does not follow ${used}`);
      used += ms;
      owed += BigInt(ms) * BigInt(rate);
      paid -= BigInt(micros);
    }
    if (paid !== owed / 3_600_000n) bad.push(`${subject} paid ${paid} of ${owed / 3_600_000n}`);
  }
  for (const [i, { subject, type, at }] of events.entries()) {
    if (!BEGINS.includes(type)) continue;
    const end = events.slice(i + 1).find((each) => each.subject === subject && NEXT.includes(each.type));
    if (!end) continue;
    const own = entries.filter((each) => each.subject === subject && each.at > at && each.at <= end.at + SLACK_MS);
    const ms = own.reduce((sum, each) => sum + each.ms, 0);
    const isCut = starts.some((each) => each > at && each <= end.at);
    if (ms > end.at - at + SLACK_MS) bad.push(`${subject} was charged ${ms} ms from ${at} to ${end.at}`);
    if (!isCut && ms < end.at - at - SLACK_MS) bad.push(`${subject} was charged only ${ms} ms from ${at} to ${end.at}`);
  }
  return bad;
}
/** An event and its charge read the clock one after the other. */
const SLACK_MS = 250;

const grants = (amount: number) => {
  const db = new Database(join(dir, "verk.db"), { readonly: true });
  const sql = "SELECT count(*) AS n FROM ledger_entries WHERE kind = 'grant' AND amount_micros = ?";
  const { n } = db.query(sql).get(amount) as { n: number };
  db.close();
  return n;
};

test(`killed ${KILLS} times where it commits, writes and spawns: all use is charged, once (seed ${SEED})`, async () => {
  const random = randomFor("money kills");
  let kills = 0;
  for (let round = 0; kills < KILLS; round++) {
    const failpoint = `*:${1 + Math.floor(random() * 160)}`;
    try {
      await start(failpoint);
      await live(round);
    } catch (error) {
      if (!(error instanceof Stopped) && !isDead()) await until("the server to die", isDead, 2_000);
    }
    if (!isDead()) await server.kill("SIGKILL");
    kills++;
    expect({ round, failpoint, wrong: ledgerErrors() }).toEqual({ round, failpoint, wrong: [] });
    expect(grants(250_000)).toBeLessThanOrEqual(round + 1);
  }
  await start();
  for (let round = 0; round < KILLS; round++) {
    const body = { payment_customer_id: customer, amount_usd: 0.25 };
    await call("POST", "/billing/grants", body, { as: adminKey, headers: { "idempotency-key": `round-${round}` } });
  }
  expect(grants(250_000)).toBe(KILLS);
  await until("all jobs to end", async () => !(await busy()), 240_000);
  for (const { id } of (await call("GET", "/deployments?limit=100")).data)
    await call("POST", `/deployments/${id}/stop`);
  const jobs = (await call("GET", "/training_jobs?limit=100")).data as { status: string; cost_usd: number }[];
  expect(jobs.filter(({ status, cost_usd: usd }) => status !== "completed" || usd <= 0)).toEqual([]);
  await server.kill("SIGTERM");
  expect(ledgerErrors()).toEqual([]);
});

test("verk credits grant, killed at any point, has granted once or not at all", async () => {
  let killed = 0;
  for (let n = 1; ; n++) {
    const before = grants(7_000_000);
    const child = Bun.spawn([...program(), "credits", "grant", "7", "--data", dir], {
      env: { HOME: dir, PATH: process.env["PATH"] ?? "", ...env, VERK_FAILPOINT: `*:${n}` },
      stdout: "ignore",
      stderr: "ignore",
    });
    const code = await child.exited;
    expect(grants(7_000_000) - before).toBeOneOf(code === 0 ? [1] : [0, 1]);
    expect(violations(dir)).toEqual([]);
    if (code === 0) break;
    killed++;
  }
  expect(killed).toBeGreaterThan(2);
});
