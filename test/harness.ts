import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { openContext } from "../src/app.ts";
import type { Ctx, SCOPES } from "../src/context.ts";
import { isServicePath } from "../src/http/answer/service_errors.ts";
import { createHandler } from "../src/http/server.ts";
import { loops } from "../src/loops.ts";
import { type Clock, systemClock } from "../src/platform/clock.ts";
import { type Config, loadConfig } from "../src/platform/config/config.ts";
import { closeDb, durable } from "../src/platform/db/db.ts";
import { failpoints } from "../src/platform/failpoint.ts";
import { createLog } from "../src/platform/log.ts";
import { type Loop, startLoop } from "../src/platform/loop.ts";
import type { Dial } from "../src/platform/network/http_client.ts";
import type { Supervisor } from "../src/platform/workers/supervisor.ts";
import * as keys from "../src/resources/api_keys/service.ts";
import { closeAll } from "../src/resources/datasets/stream/files.ts";
import { close as closeTrainingJobs } from "../src/resources/training_jobs/running/reconcile.ts";
import * as workspaces from "../src/resources/workspaces/service.ts";
import { mount } from "../src/routes.ts";
import { conforms } from "./conformance.ts";
import { openMigrated } from "./template_db.ts";

export const tempDir = () => mkdtempSync(join(tmpdir(), "verk-test-"));

/** A clock that moves only when told; sleepers wake as it passes them. `set`: somebody changes the time of day. */
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
          at: now + ms,
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
      for (const sleeper of [...sleepers]) if (sleeper.at <= now) sleeper.wake();
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
  /** Loops that run, by name; what the others would do a test calls itself. */
  loops?: readonly string[];
  /** Stands between the server and its children. */
  supervise?: (supervisor: Supervisor) => Supervisor;
  /** Stands between the server and the outside: answers names, records addresses. */
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
  const woken: string[] = [];
  const { ctx: real, closing } = openContext(config, db, log, clock);
  const running = new Map<string, Loop>();
  const wake = (loop: string) => {
    woken.push(loop);
    running.get(loop)?.wake();
  };
  const dial = options.dial?.(config) ?? real.dial;
  const ctx: Ctx = { ...real, wake, dial, supervisor: supervise(real.supervisor) };
  for (const spec of loops(ctx))
    if (options.loops?.includes(spec.name)) running.set(spec.name, startLoop(spec, { log, clock }));
  const handle = createHandler(ctx, mount(ctx));
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
    const text = await response.text();
    const isJson = text !== "" && response.headers.get("content-type")?.startsWith("application/json");
    const answer = { status: response.status, body: isJson ? JSON.parse(text) : text, headers: response.headers };
    if (isJson && !path.startsWith("/openapi.json")) conforms(handle.app, method, path, answer.status, answer.body);
    return answer;
  }
  return {
    ctx,
    dir,
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
      closing.abort();
      await Promise.all([...running.values()].map((loop) => loop.stop()));
      await closeTrainingJobs(ctx, AbortSignal.timeout(2_000));
      await ctx.supervisor.stopAll("test over");
      await ctx.rewards.close();
      closeAll(ctx);
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
 * Plays `scenario` once per failpoint it passes: crash at the first, then at the second, until a run gets
 * through unharmed. Fails if no crash ever fired, so it cannot pass by testing nothing. Returns how many did.
 */
export async function atEveryFailpoint(
  scenario: (attempt: (fn: () => unknown) => Promise<void>) => Promise<void>,
  most = 500,
): Promise<number> {
  for (let n = 1; n <= most; n++) {
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
      if (n === 1) throw new Error("the scenario passed no failpoint");
      return n - 1;
    }
  }
  throw new Error(`more than ${most} failpoints: split the scenario`);
}

const ROOT = resolve(import.meta.dir, "..");
/** The compiled executable where there is one, else the source under this Bun. */
export const program = (): string[] => {
  const binary = process.env["VERK_BINARY"] ?? join(ROOT, "dist/verk");
  return existsSync(binary) ? [binary] : [process.execPath, join(ROOT, "src/main.ts")];
};

type BinaryOptions = { dir?: string; args?: string[]; env?: Record<string, string>; prefix?: string[] };

/** `verk serve` as a real process on a free port, in an empty environment and an empty working directory. */
export async function startBinary({ dir = tempDir(), args = [], env = {}, prefix = [] }: BinaryOptions = {}) {
  const child = Bun.spawn([...prefix, ...program(), "serve", "--data", dir, "--listen", "127.0.0.1:0", ...args], {
    env: { HOME: dir, PATH: process.env["PATH"] ?? "", ...env },
    cwd: dir,
    stdout: "pipe",
    stderr: "pipe",
  });
  let stderr = "";
  const reading = (async () => {
    for await (const chunk of child.stderr) stderr += new TextDecoder().decode(chunk);
  })();
  const ready = until("the server to listen", async () => {
    if (child.exitCode !== null || child.signalCode !== null) throw new Stopped(stderr);
    const holder = JSON.parse(readFileSync(join(dir, "server.json"), "utf8")) as { pid: number; listen: string | null };
    const url = holder.listen === null ? undefined : `http://${holder.listen}`;
    return url !== undefined && (await fetch(`${url}/readyz`)).ok ? url : undefined;
  });
  const exited = child.exited.then(async () => {
    await reading;
    return { code: child.exitCode, signal: child.signalCode, stderr };
  });
  const url = await Promise.race([ready, exited.then(({ stderr }) => Promise.reject(new Stopped(stderr)))]);
  return {
    url,
    dir,
    child,
    exited,
    pid: child.pid,
    stderr: () => stderr,
    async kill(signal: NodeJS.Signals = "SIGKILL") {
      child.kill(signal);
      return await exited;
    },
  };
}

export class Stopped extends Error {
  constructor(readonly stderr: string) {
    super(`the server stopped:\n${stderr}`);
  }
}

/** A key made from the command line, beside a running server or without one. */
export async function makeKey(dir: string, ...args: string[]): Promise<{ id: string; key: string }> {
  const child = Bun.spawn([...program(), "keys", "create", "--data", dir, "--json", ...args], {
    env: { HOME: dir, PATH: process.env["PATH"] ?? "" },
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (child.exitCode !== 0) throw new Error(`verk keys create: ${err}`);
  return JSON.parse(out);
}
