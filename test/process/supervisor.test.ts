// tier: all (whole paths on the executable)
import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { failpoints } from "../../src/platform/failpoint.ts";
import { marks } from "../../src/platform/workers/env.ts";
import { findMarked, killMarked } from "../../src/platform/workers/orphans.ts";
import type { Supervisor } from "../../src/platform/workers/supervisor.ts";
import type { Exit, ExitKind, Worker } from "../../src/platform/workers/types.ts";
import { FAILURES } from "../../src/workers/protocol.ts";
import { aside } from "../aside/aside.ts";
import { FAKE_PROGRAM } from "../fake_workers/program.ts";
import { FromFake, type ToFake } from "../fake_workers/protocol.ts";
import { until } from "../harness.ts";
import { isAlive, makeSupervisor } from "./supervisor_kit.ts";

type FakeExit = Exit<ExitKind<FromFake>>;
type Run = { worker: Worker<FromFake, ToFake>; messages: FromFake[]; exits: FakeExit[] };
type Limits = Partial<Record<"silenceMs" | "readyTimeoutMs" | "graceMs" | "tailBytes", number>>;

let dir: string;
let run: string;
let supervisor: Supervisor;
let lines: string[];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "verk-sup-"));
  run = join(dir, "run");
  lines = [];
  supervisor = makeSupervisor(run, { lines });
});
afterEach(async () => {
  await supervisor.stopAll("test over");
  const left = (await findMarked(marks.dir(run))).marked;
  await killMarked(marks.dir(run));
  rmSync(dir, { recursive: true, force: true });
  expect(left).toEqual([]); // no test leaves a process behind
});

function fake(behaviour: string, arg: string | number = "", limits: Limits = {}): Run {
  const messages: FromFake[] = [];
  const exits: FakeExit[] = [];
  const worker = supervisor.spawn<FromFake, ToFake>({
    kind: "fake",
    args: [behaviour, String(arg)],
    incoming: FromFake,
    onMessage: (message) => void messages.push(message),
    onExit: (exit) => void exits.push(exit),
    ...limits,
  });
  return { worker, messages, exits };
}

const spawnedPid = ({ messages }: Run) =>
  until("a grandchild", () => messages.find((message) => message.type === "spawned")?.pid);

test("a worker says it is ready, echoes in order and finishes", async () => {
  const { worker, messages, exits } = fake("echo");
  await worker.ready;
  for (let i = 0; i < 100; i++) worker.send({ type: "echo", text: `message ${i}` });
  worker.send({ type: "finish" });
  const exit = await worker.exited;
  expect(exit).toMatchObject({ kind: "done", code: 0, signal: null, forced: false });
  expect(messages.slice(0, -1)).toEqual(
    Array.from({ length: 100 }, (_, i) => ({ type: "echo", text: `message ${i}` })),
  );
  expect(messages.at(-1)).toEqual({ type: "done" });
  expect(exits).toEqual([exit]);
  expect(worker.send({ type: "finish" })).toBe(false);
  expect(await worker.stop("too late")).toBe(exit);
  expect(supervisor.live()).toEqual([]);
});

const quick = { silenceMs: 400, graceMs: 300 };
const graceMs = 300;
test.each([
  ["exits with a code", "exit", 7, {}, { kind: "crashed", code: 7, forced: false }],
  ["dies of a signal", "signal", "SIGABRT", {}, { kind: "crashed", signal: "SIGABRT" }],
  ["exits 0 after the handshake without a word", "mute", "", {}, { kind: "crashed", code: 0 }],
  ["exits 0 before the handshake", "no_handshake", "", {}, { kind: "crashed", code: 0 }],
  ["reports a cause", "fail", "memory", {}, { kind: "memory", code: 1, forced: false }],
  ["has a bug in a timer", "throw", "", {}, { kind: "crashed", code: 1, forced: false }],
  ["hangs in a busy loop", "hang", "", quick, { kind: "silent", signal: "SIGKILL", forced: true }],
  ["never becomes ready", "never_ready", "", { readyTimeoutMs: 500 }, { kind: "silent", forced: true }],
  ["sends a message of the wrong shape", "lie", "", {}, { kind: "lied", forced: true }],
  ["speaks another protocol", "lie_protocol", "", {}, { kind: "lied", forced: true }],
  ["speaks before it is ready", "lie_early", "", {}, { kind: "lied", forced: true }],
  ["says ready twice", "lie_twice_ready", "", {}, { kind: "lied", forced: true }],
  ["writes garbage into its channel", "lie_garbage", "", { graceMs }, { kind: "lied", forced: true }],
  ["says done and stays", "linger", "", { graceMs }, { kind: "done", forced: true }],
  ["announces a long native call", "quiet", 5_000, { silenceMs: 2_000, graceMs }, { kind: "done", forced: false }],
] as [string, string, string | number, Limits, Partial<FakeExit>][])(
  "a worker that %s ends with the right kind, reported once",
  async (_name, behaviour, arg, limits, expected) => {
    const { worker, exits } = fake(behaviour, arg, limits);
    const exit = await worker.exited;
    expect(exit).toMatchObject(expected);
    expect(exits).toEqual([exit]);
    expect(["done", "stopped", ...Object.keys(FAILURES)]).toContain(exit.kind);
    expect(isAlive(worker.pid)).toBe(false);
  },
);

test("a segmentation fault is a crash", async () => {
  const exit = await fake("signal", "SIGSEGV").worker.exited;
  expect(exit.kind).toBe("crashed");
  expect(exit.code === 0).toBe(false);
});

test("waiting for a worker that dies first is an error that says why", async () => {
  const { worker } = fake("no_handshake");
  expect(worker.ready).rejects.toThrow("exited with code 0 without a word");
  await worker.exited;
});

test("the end of a worker's standard error is kept, without secrets", async () => {
  expect((await fake("exit", 7).worker.exited).tail).toBe("the flux capacitor broke\n");
  const key = `vk_${"k3yK3yk3Y".repeat(5).slice(0, 43)}`;
  const { tail } = await fake("secret", key).worker.exited;
  expect(tail).toStartWith("could not sign in with ");
  expect(tail).not.toContain(key);
  expect(lines.join("")).not.toContain(key);
});

test.each([
  ["busy reading", 0],
  ["standing still while it ends", 800],
])("every message before the end arrives, with the server %s", async (_name, stillMs) => {
  const { worker, messages } = fake("burst", 5_000);
  const until = performance.now() + stillMs;
  while (performance.now() < until);
  const exit = await worker.exited;
  expect(exit).toMatchObject({ kind: "done", code: 0, forced: false, tail: "last words\n" });
  expect(messages).toHaveLength(5_001);
});

test("stop lets the worker finish its work and report the end", async () => {
  const { worker, messages } = fake("stop_slowly");
  await worker.ready;
  const exit = await worker.stop("cancelled");
  expect(exit).toMatchObject({ kind: "done", code: 0, forced: false });
  expect(messages).toEqual([{ type: "done", result: "saved on the way out" }]);
});

test("a stopped worker is `stopped`, also when stop comes before it is ready", async () => {
  const early = await fake("echo").worker.stop("early");
  expect(early).toMatchObject({ kind: "stopped", message: "Worker fake was stopped: early" });
  const { worker } = fake("echo");
  await worker.ready;
  expect(await worker.stop("cancelled")).toMatchObject({ kind: "stopped", code: 0, forced: false });
});

test("a worker that ignores SIGTERM is killed after the grace", async () => {
  const run = fake("stubborn", "", { graceMs: 300 });
  const { worker } = run;
  await spawnedPid(run);
  const began = performance.now();
  const exit = await worker.stop("cancelled");
  expect(exit).toMatchObject({ kind: "stopped", signal: "SIGKILL", forced: true });
  expect(performance.now() - began).toBeGreaterThan(290);
});

test.each(["flood_stdout", "flood_stderr"])(
  "%s: 400 MB neither block the worker nor grow the server",
  async (flood) => {
    const { exit, growthBytes } = await aside<{ exit: FakeExit; growthBytes: number }>("flooding_worker", flood);
    expect(exit.kind).toBe("done");
    expect(exit.tail.length).toBeLessThanOrEqual(8_192);
    if (flood === "flood_stderr") {
      expect(exit.tail).toEndWith("end of the flood\n");
      expect(exit.stderrBytes).toBeGreaterThan(400_000_000);
    }
    expect(growthBytes).toBeLessThan(200 * 2 ** 20); // garbage comes and goes, but not the flood itself
  },
);

test("a stream goes over the unix socket, which is removed with the worker", async () => {
  const { worker, messages } = fake("serve");
  await until("serving", () => messages.some((message) => message.type === "serving"));
  const answer = await fetch("http://worker/", { unix: worker.socketPath, method: "POST", body: "hello" });
  expect(await answer.text()).toBe("you said hello");
  await worker.stop("enough");
  expect(existsSync(worker.socketPath)).toBe(false);
});

test("a data directory with a very long path gets its socket elsewhere", async () => {
  const deep = join(dir, "d".repeat(120), "run");
  supervisor = makeSupervisor(deep, { lines });
  const { worker, messages } = fake("serve");
  expect(Buffer.byteLength(worker.socketPath)).toBeLessThan(108);
  await until("serving", () => messages.some((message) => message.type === "serving"));
  expect((await fetch("http://worker/", { unix: worker.socketPath })).status).toBe(200);
  await worker.stop("enough");
  expect(existsSync(worker.socketPath)).toBe(false);
});

test.each(["grandchild", "grandchild_detached"])(
  "%s: the processes that a worker started die with it",
  async (behaviour) => {
    for (const end of ["stopped", "killed"]) {
      const started = fake(behaviour);
      const pid = await spawnedPid(started);
      expect(isAlive(pid)).toBe(true);
      if (end === "stopped") await started.worker.stop("enough");
      else process.kill(started.worker.pid, "SIGKILL");
      const exit = await started.worker.exited;
      expect(exit.kind).toBe(end === "stopped" ? "stopped" : "crashed");
      await until("the grandchild's end", () => !isAlive(pid));
    }
  },
);

test("a worker's environment holds no secret and keeps native libraries quiet", async () => {
  const env = { VERK_SECRETS__KEY: "hush", AWS_SECRET_ACCESS_KEY: "hush", LANG: "C", CUDA_VISIBLE_DEVICES: "1" };
  supervisor = makeSupervisor(run, { env, lines });
  const { worker, messages } = fake("environment");
  await worker.exited;
  const entries = messages.flatMap((message) => (message.type === "environment" ? message.entries : []));
  expect(entries).toEqual(expect.arrayContaining(["ORT_DISABLE_TELEMETRY=1", "LANG=C", "CUDA_VISIBLE_DEVICES=1"]));
  expect(entries.join("\n")).not.toContain("hush");
});

test("a handler that throws is logged and ends neither the worker nor the server", async () => {
  let exits = 0;
  const worker = supervisor.spawn<FromFake, ToFake>({
    kind: "fake",
    args: ["echo"],
    incoming: FromFake,
    onMessage: () => Promise.reject(new Error("the database is away")),
    onExit: () => {
      exits++;
      throw new Error("still away");
    },
  });
  worker.send({ type: "echo", text: "one" });
  worker.send({ type: "finish" });
  expect((await worker.exited).kind).toBe("done");
  expect(exits).toBe(1);
  expect(lines.filter((line) => line.includes("handler of a worker"))).toHaveLength(3);
});

test("stopAll ends every worker and lets no new one start", async () => {
  const runs = ["echo", "stubborn", "hang", "grandchild"].map((name) => fake(name, "", { graceMs: 300 }));
  await Promise.all(runs.map(({ worker }) => worker.ready));
  await supervisor.stopAll("shutdown");
  expect(runs.map(({ exits }) => exits.length)).toEqual([1, 1, 1, 1]);
  expect(runs.filter(({ worker }) => isAlive(worker.pid))).toEqual([]);
  expect(() => fake("echo")).toThrow("stopping");
});

test("a spawn passes both failpoints", async () => {
  const passed: string[] = [];
  failpoints.hit = (name) => void passed.push(name);
  try {
    const { worker } = fake("echo");
    expect(passed).toEqual(["supervisor.before_spawn", "supervisor.after_spawn"]);
    await worker.stop("enough");
  } finally {
    delete failpoints.hit;
  }
});

const BINARY = resolve(process.env["VERK_BINARY"] ?? "dist/verk");
const PROGRAM = existsSync(BINARY) ? [BINARY] : [process.execPath, resolve(import.meta.dir, "../../src/main.ts")];
const KINDS =
  "connector, converter, detector, importer, inspector, proxy, reward, serving, speed, trainer, unpack, probe";
test.each([
  [PROGRAM, ["worker", "nonsense"], `Use one of: ${KINDS}\n`],
  [FAKE_PROGRAM, ["worker", "fake", "echo"], "started by the server"],
  [FAKE_PROGRAM, ["worker", "fake", "nonsense"], "Use one of: echo"],
])("%j %j by hand exits 2 and lists the possible arguments", (program, args, text) => {
  const child = Bun.spawnSync([...program, ...args], { cwd: dir, env: { HOME: dir } });
  expect(child.exitCode).toBe(2);
  expect(child.stderr.toString()).toContain(text);
});
