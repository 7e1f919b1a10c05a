// tier: all (sweeps of faults)
/**
 * Every route and every loop with 1, 10 and 100 times the rows: no turn of the event loop grows faster than n log n, and
 * none takes more than 50 ms of processor time with 100 times the rows.
 *
 * The journey of the meta tests makes the first rows and the requests. They are sent again to copies of that directory
 * whose tables have grown by SQL, so a list is long and an object has many children.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, rmSync } from "node:fs";
import { basename } from "node:path";
import type { Handler } from "../../src/http/server.ts";
import { routeNames } from "../../src/lib/route_names.ts";
import { DAY_MS } from "../../src/lib/units.ts";
import { loops } from "../../src/loops.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { closeDb } from "../../src/platform/db/db.ts";
import { detecting } from "../detection_kit.ts";
import { addMissing, grow, shareOf } from "../grown_world.ts";
import { type TestApp, tempDir, testApp } from "../harness.ts";
import { allowLongTurns, takeLongTurns } from "../long_turns.ts";
import { JOURNEY, meanwhile, play } from "../meta/journey.ts";
import { CONVERSATION } from "../meta/journey_traces.ts";
import { sweep } from "../sweep.ts";
import { openMigrated } from "../template_db.ts";

setDefaultTimeout(600_000);
const ROWS = sweep({ quick: 2_000, full: 20_000 }); // of most tables, with 100 times the rows
const SIZES = [ROWS / 100, ROWS / 10, ROWS] as const;
const WAIT_MS = 1_500;
const TRIES = 3; // the quickest counts: the first one also compiles
/** Tables whose rows come from a job that runs. */
const NO_ROWS = ["training_system"];
/** Reads of something that a later step of the journey deletes, or that needs a process or a file. */
const GONE = [
  "GET /v1/containers/{id}/files/{file}/content: 404",
  "GET /v1/containers/{id}/files/{file}: 404",
  "GET /v1/containers/{id}/files: 404",
  "GET /v1/containers/{id}: 404",
  "GET /v1/models/{id}/download: 400",
  "GET /v1/models/{id}/file: 400",
  "GET /v1/secrets/{name}: 404",
  "GET /v1/sessions/{id}/files/content: 409",
  "GET /v1/sessions/{id}/files: 409",
  "GET /v1/settings/integrations/tracker: 404",
  "GET /v1/traces/{id}: 404",
];
allowLongTurns("the turns are compared here, and the first try of a call does not count");

const MOST_MS = 50;
const SMALL_MS = 20; // shorter turns differ by chance
const MOST_GROWTH = 10 * (Math.log(ROWS) / Math.log(ROWS / 10)) * 1.5; // n log n for 10 times the rows, and some chance
const AGE_MS = 400 * DAY_MS; // everything is old enough to be removed

type Sent = { method: string; url: string; headers: [string, string][]; body: ArrayBuffer | undefined };

const threadMs = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

/** Processor time of the longest turn of the event loop in which a part of `work` runs. */
async function longestTurnOf(work: () => unknown): Promise<number> {
  let longest = 0;
  let used = threadMs();
  let isOver = false;
  const count = () => {
    const now = threadMs();
    longest = Math.max(longest, now - used);
    used = now;
  };
  const next = () => {
    count();
    if (!isOver) setTimeout(next, 1);
  };
  setTimeout(next, 1);
  await work();
  isOver = true;
  count();
  return longest;
}

const refuse = () => {
  throw new Error("no process and no connection in this test");
};
const flags = { "network.allow": ["127.0.0.1"] };
const openAt = (dir: string, { ageMs = 0 } = {}) =>
  testApp({
    dir,
    flags,
    dial: () => refuse,
    clock: { ...systemClock, now: () => systemClock.now() + ageMs },
    supervise: (supervisor) => ({ ...supervisor, spawn: refuse }),
  });

let base: string;
/** The last successful requests of each operation. */
const requests = new Map<string, Sent>();

const recording =
  (handle: Handler, nameOf: (request: Request) => string | undefined): Handler =>
  async (request) => {
    const copy = request.body === null ? undefined : request.clone();
    const response = await handle(request);
    const name = nameOf(request);
    if (response.status < 300 && name !== undefined) {
      const { method, url } = request;
      requests.set(name, { method, url, headers: [...request.headers], body: await copy?.arrayBuffer() });
    }
    return response;
  };

beforeAll(async () => {
  let nameOf: (request: Request) => string | undefined = () => undefined;
  const app = detecting({ flags, around: (handle) => recording(handle, (request) => nameOf(request)) });
  const route = routeNames(await app.handle.routes());
  nameOf = ({ method, url }) => {
    const found = route(method, new URL(url).pathname);
    return found && `${method} ${found.route}`;
  };
  for (const step of JOURNEY.filter(({ raw }) => !raw)) await play(app, step);
  await meanwhile(app);
  const { $client } = app.ctx.db;
  $client.run("UPDATE regions SET seen_at = 1e15"); // their nodes are not asked
  const values = JSON.stringify(Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`metric_${i}`, i / 7])));
  $client.run("INSERT OR IGNORE INTO training_metrics SELECT id, 1, 0.1, created_at, ? FROM training_jobs", [values]);
  $client.run(
    `INSERT OR IGNORE INTO training_samples
     SELECT id, 1, 1, '"p"', 'c', 0.5, '{}', 0.1, 3, 0, NULL FROM training_jobs`,
  );
  addMissing($client, CONVERSATION);
  await app.close();
  base = app.dir;
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

/** A copy of the base whose tables have `rows` rows. */
function grown(rows: number): { dir: string; counts: Record<string, number> } {
  const dir = tempDir();
  cpSync(base, dir, { recursive: true, filter: (source) => basename(source) !== "run" });
  const db = openMigrated(dir);
  const counts = grow(db.$client, rows);
  closeDb(db);
  return { dir, counts };
}

/** Turns that are known to be too long, by a name or a file of the stack. A line whose turns have become short must go. */
const OPEN: Record<string, string> = {};

type Figure = { ms: number[]; stack: string };
type Figures = Map<string, Figure>; // by the name of a route or loop: the longest turn at each size

function isTooLong({ ms }: Figure): boolean {
  const [before = 0, most = 0] = ms.slice(-2);
  return most > MOST_MS || (most > SMALL_MS && most > before * MOST_GROWTH);
}

function judge(figures: Figures) {
  const shown = [...figures].map(([name, figure]) => ({
    ...figure,
    text: `${name}: ${figure.ms.map((each) => each.toFixed(1)).join(" → ")} ms\n${figure.stack}`,
  }));
  const open = Object.keys(OPEN);
  const found = shown.filter((each) => isTooLong(each) && !open.some((key) => each.text.includes(key)));
  expect(found.map(({ text }) => text)).toEqual([]);
  const isStale = (key: string) => {
    const own = shown.filter(({ text }) => text.includes(key));
    return own.length > 0 && own.every(({ ms }) => Math.max(...ms) < SMALL_MS);
  };
  expect(open.filter(isStale)).toEqual([]);
}

async function note(figures: Figures, name: string, ms: number) {
  await new Promise((resolve) => setTimeout(resolve, 0)); // the watch, which a long turn has kept too, comes first
  const stack = takeLongTurns().at(-1) ?? figures.get(name)?.stack ?? "";
  figures.set(name, { ms: [...(figures.get(name)?.ms ?? []), ms], stack });
}

/** Waits for the end of the work, or for `WAIT_MS`: what waits for a replica has had its turns by then. */
async function overOrWaiting(work: (signal: AbortSignal) => Promise<unknown>): Promise<void> {
  const signal = AbortSignal.timeout(WAIT_MS);
  const gaveUp = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  await Promise.race([work(signal).catch(() => {}), gaveUp]);
}

/** Returns the status, or nothing if there was no answer in time. */
async function send(app: TestApp, { method, url, headers, body }: Sent): Promise<number | undefined> {
  let status: number | undefined;
  await overOrWaiting(async (signal) => {
    const given = body === undefined ? {} : { body };
    const response = await app.handle(new Request(url, { method, headers, signal, ...given }));
    status = response.status;
    await response.arrayBuffer();
  });
  return status;
}

test("every table that users fill has grown", () => {
  const { dir, counts } = grown(SIZES[1]);
  rmSync(dir, { recursive: true });
  const small = Object.entries(counts).filter(([table, count]) => count < SIZES[1] * Math.min(1, shareOf(table)));
  expect(small.map(([table]) => table)).toEqual(NO_ROWS);
});

test("every read of the journey still finds what it shows", async () => {
  const app = openAt(grown(SIZES[0]).dir);
  const failed: string[] = [];
  for (const [name, sent] of requests) {
    if (!name.startsWith("GET")) continue;
    const status = await send(app, sent);
    if (status !== undefined && status >= 400) failed.push(`${name}: ${status}`);
  }
  await app.close();
  app.remove();
  expect(failed.sort()).toEqual(GONE);
});

test("every route with 1, 10 and 100 times the rows", async () => {
  const figures: Figures = new Map();
  const isRead = (name: string) => name.startsWith("GET");
  const order = [...requests].sort(([a], [b]) => Number(isRead(b)) - Number(isRead(a)));
  for (const rows of SIZES) {
    const app = openAt(grown(rows).dir);
    for (const [name, sent] of order) {
      let least = Number.POSITIVE_INFINITY;
      for (let i = 0; i < TRIES && least > SMALL_MS; i++)
        least = Math.min(least, await longestTurnOf(() => send(app, sent)));
      await note(figures, name, least);
    }
    await app.close();
    app.remove();
  }
  expect(figures.size).toBeGreaterThan(200);
  judge(figures);
});

test("every loop with 10 and 100 times the rows, young and old", async () => {
  const figures: Figures = new Map();
  for (const ageMs of [0, AGE_MS])
    for (const rows of SIZES.slice(1)) {
      const app = openAt(grown(rows).dir, { ageMs });
      for (const { name, tick } of loops(app.ctx)) {
        const ms = await longestTurnOf(() => overOrWaiting(async (signal) => await tick(signal)));
        await note(figures, ageMs === 0 ? name : `${name}, old rows`, ms);
      }
      await app.close();
      app.remove();
    }
  judge(figures);
});
