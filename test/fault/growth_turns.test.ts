/**
 * Every route and every loop with 1, 10 and 100 times the rows: no turn of the event loop grows faster than n log n, and
 * none takes more than 50 ms of processor time with 100 times the rows.
 *
 * The journey of the meta tests makes the first rows and the requests. They are sent again to copies of that directory
 * whose tables have grown by SQL, so a list is long and an object has many children.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { appendFileSync, cpSync, rmSync } from "node:fs";
import { basename } from "node:path";
import type { Handler } from "../../src/http/server.ts";
import { routeNames } from "../../src/lib/route_names.ts";
import { DAY_MS } from "../../src/lib/units.ts";
import { type LoopName, loops } from "../../src/loops.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { closeDb, durable } from "../../src/platform/db/db.ts";
import { detecting } from "../detection_kit.ts";
import { grow } from "../grown_world.ts";
import { type TestApp, tempDir } from "../harness.ts";
import { JOURNEY, meanwhile, play } from "../meta/journey.ts";
import { sweep } from "../sweep.ts";
import { openMigrated } from "../template_db.ts";

setDefaultTimeout(600_000);
const ROWS = sweep({ quick: 5_000, full: 20_000 }); // of most tables, with 100 times the rows
const SIZES = [ROWS / 100, ROWS / 10, ROWS] as const;
const TRIES = 3; // the quickest counts: the first one also compiles
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
    if (!isOver) setImmediate(next);
  };
  setImmediate(next);
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
  detecting({
    ...{ dir, flags, dial: () => refuse },
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
  const route = routeNames(app.handle.app.routes);
  nameOf = ({ method, url }) => {
    const found = route(method, new URL(url).pathname);
    return found && `${method} ${found.route}`;
  };
  for (const step of JOURNEY.filter(({ raw }) => !raw)) await play(app, step);
  await meanwhile(app);
  app.ctx.db.$client.run("UPDATE regions SET seen_at = 1e15"); // their nodes are not asked
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

type Figures = Map<string, number[]>; // by the name of a route or loop, the longest turn at each size

const tooLong = (figures: Figures): string[] =>
  [...figures].filter(([, ms]) => isTooLong(ms)).map(([name, ms]) => `${name}: ${ms.map((each) => each.toFixed(1)).join(" → ")} ms`);

export function isTooLong(ms: readonly number[]): boolean {
  const [before = 0, most = 0] = ms.slice(-2);
  return most > MOST_MS || (most > SMALL_MS && most > before * MOST_GROWTH);
}

/** A request that waits for a replica is given up: its turns are over by then. */
async function send(app: TestApp, { method, url, headers, body }: Sent): Promise<number> {
  const signal = AbortSignal.timeout(2_000);
  const given = body === undefined ? {} : { body };
  const answered = (async () => {
    const response = await app.handle(new Request(url, { method, headers, signal, ...given }));
    await response.arrayBuffer();
    return response.status;
  })();
  const gaveUp = new Promise<number>((resolve) => signal.addEventListener("abort", () => resolve(0)));
  return await Promise.race([answered, gaveUp]);
}

test("tables grow", () => {
  const { dir, counts } = grown(1_000);
  rmSync(dir, { recursive: true });
  console.log(Object.entries(counts).filter(([, n]) => n < 500));
});

test("every route with 1, 10 and 100 times the rows", async () => {
  const figures: Figures = new Map();
  const statuses = new Map<string, number>();
  for (const rows of SIZES) {
    const app = openAt(grown(rows).dir);
    const reads = [...requests].sort(([a], [b]) => Number(!a.startsWith("GET")) - Number(!b.startsWith("GET")));
    for (const [name, sent] of reads) {
      let least = Number.POSITIVE_INFINITY;
      for (let i = 0; i < TRIES && least > SMALL_MS; i++) {
        least = Math.min(least, await longestTurnOf(async () => statuses.set(name, await send(app, sent))));
        await durable(app.ctx.db);
      }
      figures.set(name, [...(figures.get(name) ?? []), least]);
      if (rows === ROWS || least > 20) appendFileSync("/tmp/wdx/routes.txt", `${statuses.get(name)} ${name} ${figures.get(name)!.map((m) => m.toFixed(1)).join(" ")}\n`);
    }
    console.log("size over", rows);
    await app.close();
    app.remove();
  }
  for (const [name, ms] of figures) console.log("ROUTE", statuses.get(name), name, ms.map((m) => m.toFixed(1)).join(" "));
  expect(tooLong(figures)).toEqual([]);
});

test("every loop with 10 and 100 times the rows", async () => {
  const figures: Figures = new Map();
  for (const ageMs of [0, AGE_MS])
    for (const rows of SIZES.slice(1)) {
      const app = openAt(grown(rows).dir, { ageMs });
      for (const { name, tick } of loops(app.ctx)) {
        const ms = await longestTurnOf(async () => {
          try {
            await tick(AbortSignal.timeout(60_000));
          } catch (error) {
            console.log("LOOP failed", name, String(error).slice(0, 200));
          }
        });
        const key = ageMs === 0 ? name : `${name}, old rows`;
        figures.set(key, [...(figures.get(key) ?? []), ms]);
        appendFileSync("/tmp/wdx/loops.txt", `${key} ${figures.get(key)!.map((m) => m.toFixed(1)).join(" ")}\n`);
      }
      await app.close();
      app.remove();
    }
  for (const [name, ms] of figures) console.log("LOOP", name, ms.map((m) => m.toFixed(1)).join(" "));
  expect(tooLong(figures)).toEqual([]);
});
