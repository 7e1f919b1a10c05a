import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openContext } from "../src/app.ts";
import type { Ctx, SCOPES } from "../src/context.ts";
import { isServicePath } from "../src/http/answer/service_errors.ts";
import { createHandler, type Handler } from "../src/http/server.ts";
import { loops } from "../src/loops.ts";
import { PARTS, type PartName, type Running } from "../src/parts.ts";
import { type Clock, systemClock } from "../src/platform/clock.ts";
import { type Config, loadConfig } from "../src/platform/config/config.ts";
import { closeDb, durable, isBroken } from "../src/platform/db/db.ts";
import { failpoints } from "../src/platform/failpoint.ts";
import { createLog } from "../src/platform/log.ts";
import { startLoop } from "../src/platform/loop.ts";
import type { Dial } from "../src/platform/network/http_client.ts";
import type { Supervisor } from "../src/platform/workers/supervisor.ts";
import * as keys from "../src/resources/access/api_keys/service.ts";
import * as workspaces from "../src/resources/access/workspaces/service.ts";
import { useProbe } from "../src/resources/machines/gpu/service.ts";
import { mainPort } from "../src/routes.ts";
import type { LoopName } from "../src/schedules.ts";
import { conforms } from "./conformance.ts";
import { randomFor, sweep } from "./sweep.ts";
import { openMigrated } from "./template_db.ts";

export const tempDir = () => mkdtempSync(join(tmpdir(), "verk-test-"));

/** A clock that moves only by `advance`; sleepers wake as it passes them. `set` changes the time of day alone. */
export function fakeClock(startMs = Date.UTC(2026, 0, 1)) {
  let now = startMs;
  let steady = 0;
  const sleepers = new Set<{ at: number; wake: () => void }>();
  return {
    now: () => now,
    steady: () => steady,
    sleep: (ms, signal) =>
      new Promise((done) => {
        if (signal?.aborted) return done();
        const sleeper = {
          at: steady + ms, // as of a real timer: the time of day has no effect
          wake: () => {
            sleepers.delete(sleeper);
            done();
          },
        };
        sleepers.add(sleeper);
        signal?.addEventListener("abort", sleeper.wake, { once: true });
      }),
    advance(ms) {
      now += ms;
      steady += ms;
      for (const sleeper of [...sleepers]) if (sleeper.at <= steady) sleeper.wake();
    },
    set(ms) {
      now += ms;
    },
  } satisfies Clock & { advance: (ms: number) => void; set: (ms: number) => void };
}

export type Options = {
  dir?: string;
  clock?: Clock;
  flags?: Record<string, unknown>;
  /** Loops that run. A test calls the work of the others itself. */
  loops?: readonly LoopName[];
  /** Parts that begin before the loops. All parts are closed. */
  parts?: readonly PartName[];
  /** Replaces the server's supervisor, for example to start fake children. */
  supervise?: (supervisor: Supervisor) => Supervisor;
  /** Stands around the handler of all requests, for example to record or to measure them. */
  around?: (handle: Handler) => Handler;
  /** Replaces the way to the outside, for example to answer names or to record addresses. */
  dial?: (config: Config) => Dial;
};
// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the server answered
export type Answer = { status: number; body: any; headers: Headers };
type CallOptions = { key?: string | null; headers?: Record<string, string>; raw?: BodyInit };
export type TestApp = ReturnType<typeof testApp>;

/** The whole application on a real database file, called in process. Reopen with the same `dir` to restart it. */
export function testApp(options: Options = {}) {
  const { dir = tempDir(), clock = systemClock, flags = {}, supervise = (same) => same } = options;
  const config: Config = loadConfig({ env: { HOME: dir }, flags: { data_dir: dir, ...flags } });
  const lines: string[] = [];
  const log = createLog({ level: "debug", write: (line) => void lines.push(line) });
  const db = openMigrated(dir);
  const woken: LoopName[] = [];
  const opened = openContext(config, db, log, clock);
  const wake = (loop: LoopName) => {
    woken.push(loop);
    opened.ctx.wake(loop);
  };
  const dial = options.dial?.(config) ?? opened.ctx.dial;
  const ctx: Ctx = { ...opened.ctx, wake, dial, supervisor: supervise(opened.ctx.supervisor) };
  useProbe(ctx, async () => []); // the same hardware on every machine; a test of GPUs sets its own
  const running: Running = { ...opened, ctx };
  for (const { name, begin } of PARTS)
    if (options.parts?.includes(name) && begin?.(running) instanceof Promise)
      throw new Error(`${name} begins asynchronously: begin it in the test`);
  for (const spec of loops(ctx))
    if (options.loops?.includes(spec.name)) running.loops.set(spec.name, startLoop(spec, { log, clock }));
  const { around = (same) => same } = options;
  const served = createHandler(ctx, mainPort(ctx));
  const handle = Object.assign(
    around((request) => served(request)),
    { routes: served.routes },
  );
  const keyOf = (name: string, scopes: (typeof SCOPES)[number][]) => {
    const row = workspaces.findByName(ctx, name) ?? workspaces.create(ctx, { name, metadata: {} });
    const input = { name: "test", scopes, expires_at: null, monthly_budget_usd: null, metadata: {} };
    return { workspaceId: row.id, ...keys.create(ctx, row.id, input) };
  };
  const a = keyOf("alpha", ["*"]);
  const b = keyOf("beta", ["*"]);
  const admin = keyOf("operators", ["admin"]);
  async function call(method: string, path: string, json?: unknown, options: CallOptions = {}): Promise<Answer> {
    const key = options.key === undefined ? a.key : options.key;
    const named = isServicePath(path.split("?")[0] ?? "")
      ? { "x-api-key": `${key}` }
      : { authorization: `Bearer ${key}` };
    const headers = new Headers({ ...(key === null ? {} : named), ...options.headers } as Record<string, string>);
    const body = options.raw ?? (json === undefined ? undefined : JSON.stringify(json));
    if (json !== undefined && !headers.has("content-type")) headers.set("content-type", "application/json");
    const request = new Request(`http://localhost${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body }),
    });
    const response = await handle(request);
    if (response.headers.get("x-content-type-options") !== "nosniff") throw new Error(`${method} ${path}: no nosniff`);
    const text = await response.text();
    const isJson = text !== "" && response.headers.get("content-type")?.startsWith("application/json");
    const answer = { status: response.status, body: isJson ? JSON.parse(text) : text, headers: response.headers };
    if (isJson && !/^\/(openapi\.json|docs\/chapters)/.test(path))
      conforms(await handle.routes(), method, path, answer.status, answer.body);
    return answer;
  }
  return {
    ctx,
    dir,
    listeners: running.listeners,
    handle,
    call,
    woken,
    log: lines,
    keyOf,
    keyA: a.key,
    keyB: b.key,
    adminKey: admin.key,
    workspaceA: a.workspaceId,
    workspaceB: b.workspaceId,
    async close() {
      const ignoreAfterCrash = (error: unknown) => {
        if (!isBroken(db)) throw error;
      };
      for (const { close } of PARTS.toReversed())
        await (async () => close?.(running, AbortSignal.timeout(2_000)))().catch(ignoreAfterCrash);
      await durable(db).catch(() => {}); // a crash that a test caused
      closeDb(db);
    },
    remove: () => rmSync(dir, { recursive: true, force: true }),
  };
}

/** For tests that open several: `const { open, closeAll } = manyApps(); afterEach(closeAll)`. */
export const manyApps = () => many<Options, TestApp>(testApp);

export function many<O, A extends Pick<TestApp, "close" | "remove">>(make: (options?: O) => A) {
  const apps: A[] = [];
  return {
    open(options?: O): A {
      const app = make(options);
      apps.push(app);
      return app;
    },
    /** All are closed before a directory goes: two of them may share one. */
    async closeAll() {
      const mine = apps.splice(0);
      for (const app of mine) await app.close();
      for (const app of mine) app.remove();
    },
  };
}

/**
 * Waits for a condition, not for a time. Fails with `what` when it does not come true. Its deadline is what a machine
 * that is busy with other things may need: how fast something is, a benchmark says.
 */
export async function until<T>(
  what: string,
  probe: () => T | Promise<T>,
  deadlineMs = 30_000,
): Promise<NonNullable<T>> {
  const end = performance.now() + deadlineMs;
  let last: unknown;
  while (performance.now() < end) {
    try {
      const value = await probe();
      if (value) return value;
    } catch (error) {
      last = error;
    }
    await Bun.sleep(5);
  }
  throw new Error(`waited ${deadlineMs} ms for: ${what}`, last === undefined ? undefined : { cause: last });
}

export class Crash extends Error {}

/**
 * Plays `scenario` with a crash at each failpoint that it passes, until a run gets through unharmed. A quick run takes
 * every third failpoint, beginning with another one each time. Fails if no crash ever fired, so it cannot pass by
 * testing nothing. Returns how many failpoints there are, up to two too many in a quick run.
 */
export async function atEveryFailpoint(
  scenario: (attempt: (fn: () => unknown) => Promise<void>) => Promise<void>,
  most = 500,
): Promise<number> {
  const stride = sweep({ quick: 3, full: 1 });
  let first = 1 + Math.floor(randomFor(scenario.toString())() * stride);
  for (let n = first; n <= most; n += stride) {
    let left = n;
    await scenario(async (fn) => {
      failpoints.hit = (name) => {
        if (--left === 0) throw new Crash(name);
      };
      try {
        await fn();
      } catch (error) {
        if (left > 0) throw error;
      } finally {
        delete failpoints.hit;
      }
    });
    if (left > 0) {
      if (n > first) return n - 1;
      if (first === 1) throw new Error("the scenario passed no failpoint");
      first = 1; // a scenario of one or two failpoints
      n = 1 - stride;
    }
  }
  throw new Error(`more than ${most} failpoints: split the scenario`);
}
