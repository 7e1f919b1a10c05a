/** Workers as the server starts them: the kernel is asked what holds around each. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { getPriority } from "node:os";
import { join, resolve } from "node:path";
import { z } from "zod";
import { systemClock } from "../../src/platform/clock.ts";
import { silentLog } from "../../src/platform/log.ts";
import { createSupervisor } from "../../src/platform/workers/supervisor.ts";
import { createConfinement } from "../../src/sandbox/confinement/confine.ts";
import { WORKER_LAYERS } from "../../src/sandbox/confinement/layers.ts";
import { type ConfinedKind, POLICIES } from "../../src/sandbox/confinement/policy.ts";
import { FromInspector, type ToInspector } from "../../src/workers/protocol_inspector.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { CONFINED, confinedIn, seenOf } from "./confined.ts";

const dir = tempDir();
const supervise = (confine: ReturnType<typeof createConfinement>) =>
  createSupervisor({
    log: silentLog,
    clock: systemClock,
    socketDir: join(dir, "run"),
    confine,
    program: [process.execPath, resolve(import.meta.dir, "../../src/main.ts")],
    env: { PATH: process.env["PATH"] },
    silence_ms: 60_000,
    stop_grace_ms: 5_000,
    stderr_tail_bytes: 8_192,
  });
const supervisor = supervise(confinedIn(dir));
afterAll(async () => {
  await supervisor.stopAll("test over");
  rmSync(dir, { recursive: true, force: true });
});

test.each(Object.keys(POLICIES) as ConfinedKind[])("M6: %s is confined from its first instruction", async (kind) => {
  const worker = supervisor.spawn({ kind, incoming: z.looseObject({ type: z.string() }) });
  await worker.ready;
  const network = POLICIES[kind].network ? { ownNetwork: false } : {};
  expect(seenOf(worker.pid)).toEqual({ ...CONFINED, ...network });
  const threads = readdirSync(`/proc/${worker.pid}/task`);
  expect(threads.length).toBeGreaterThan(1);
  for (const thread of threads) expect(seenOf(Number(thread))).toMatchObject({ noNewPrivs: "1", seccomp: "2" });
  await worker.stop("seen");
});

test("work in the background gives way to chats: every thread has the nice value of its kind", async () => {
  for (const kind of ["serving", "detector", "importer"] as const) {
    const worker = supervisor.spawn({ kind, incoming: z.looseObject({ type: z.string() }) });
    await worker.ready;
    const threads = readdirSync(`/proc/${worker.pid}/task`).map(Number);
    expect(new Set(threads.map((thread) => getPriority(thread)))).toEqual(new Set([POLICIES[kind].nice]));
    await worker.stop("seen");
  }
});

test("M6: an inspector reads only the file that it gets", async () => {
  mkdirSync(join(dir, "models"));
  const model = makeModel(join(dir, "models"), { arch: "llama", type: "F32" });
  writeFileSync(join(dir, "master.key"), "secret");
  const said: FromInspector[] = [];
  const answered = Promise.withResolvers<void>();
  const worker = supervisor.spawn<FromInspector, ToInspector>({
    kind: "inspector",
    incoming: FromInspector,
    onMessage: (message) => {
      if (said.push(message) === 3) answered.resolve();
    },
  });
  await worker.ready;
  const ask = (path: string) => worker.send({ type: "inspect", path, hash: false });
  ask(join(dir, "master.key"));
  ask(model);
  ask(worker.link(model) as string);
  await answered.promise;
  expect(said).toMatchObject([
    { type: "refused", error: "The file cannot be read (EACCES)" },
    { type: "refused", error: "The file cannot be read (EACCES)" },
    { type: "inspected", shape: { architecture: "llama" } },
  ]);
});

test("M6: a worker does not start without a layer that sandbox.require names", () => {
  for (const [require, without] of [
    ["process", "seccomp"],
    ["full", "landlock"],
  ] as const) {
    const confine = createConfinement({ dataDir: dir, require, without: [without] });
    const start = () => supervise(confine).spawn({ kind: "detector", incoming: FromInspector });
    expect(start).toThrow(`sandbox.require = "${require}" needs ${without}`);
  }
  const confine = createConfinement({ dataDir: dir, require: "language", without: WORKER_LAYERS });
  const allowed = supervise(confine);
  expect(() => allowed.spawn({ kind: "detector", incoming: FromInspector })).not.toThrow();
  void allowed.stopAll("seen");
});

test("a worker's folders are removed with the worker", async () => {
  const worker = supervisor.spawn({ kind: "inspector", incoming: FromInspector });
  await worker.ready;
  worker.link(join(dir, "master.key"));
  await worker.stop("seen");
  const left = readdirSync(join(dir, "run"), { recursive: true }).map(String);
  expect(left.filter((name) => name.includes(worker.id))).toEqual([]);
});
