/**
 * The processes that read untrusted files, as the server starts them. A file may crash a process, which is then
 * restarted.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { systemClock } from "../../src/platform/clock.ts";
import { silentLog } from "../../src/platform/log.ts";
import { createSupervisor } from "../../src/platform/workers/supervisor.ts";
import type { Worker } from "../../src/platform/workers/types.ts";
import { FromInspector, type ToInspector } from "../../src/workers/protocol_inspector.ts";
import { Detector } from "../../test/detection/detector.ts";
import { FAKES, writeModels } from "../../test/detection/fake_models.ts";
import type { Mutant } from "./file_mutants.ts";

const ROOT = resolve(import.meta.dir, "../..");
const LONGEST_MS = 60_000; // a file that takes longer hangs its reader

export type Outcome = { ended: "accepted" | "refused" | "crashed" | "hung" | "wrong"; detail: string };
export type Target = {
  name: string;
  take: (mutant: Mutant) => Promise<Outcome>;
  /** The most memory that one of its processes has held. */
  peakBytes: () => number;
  close: () => Promise<void>;
};

const late = <T>(work: Promise<T>, otherwise: () => T): Promise<T> => {
  const timeout = Promise.withResolvers<T>();
  const timer = setTimeout(() => timeout.resolve(otherwise()), LONGEST_MS);
  return Promise.race([work, timeout.promise]).finally(() => clearTimeout(timer));
};
const hung = (): Outcome => ({ ended: "hung", detail: `no answer within ${LONGEST_MS} ms` });

async function peakOf(pid: number | undefined): Promise<number> {
  if (pid === undefined) return 0;
  const status = await Bun.file(`/proc/${pid}/status`)
    .text()
    .catch(() => "");
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1_024;
}

/** Model files and archives. */
export function inspectorTarget(dir: string): Target {
  mkdirSync(dir, { recursive: true });
  const supervisor = createSupervisor({
    log: silentLog,
    clock: systemClock,
    socketDir: join(dir, "run"),
    env: { PATH: process.env["PATH"], HOME: dir },
    program: [process.execPath, join(ROOT, "src/main.ts")],
    silence_ms: LONGEST_MS,
    stop_grace_ms: 5_000,
    stderr_tail_bytes: 8_192,
  });
  let worker: Worker<FromInspector, ToInspector> | undefined;
  let waiting: ((outcome: Outcome) => void) | undefined;
  let peak = 0;
  let files = 0;
  const start = () =>
    supervisor.spawn<FromInspector, ToInspector>({
      kind: "inspector",
      incoming: FromInspector,
      onMessage(message) {
        if (message.type === "refused") waiting?.({ ended: "refused", detail: message.error });
        if (message.type === "inspected" || message.type === "unpacked") waiting?.({ ended: "accepted", detail: "" });
      },
      onExit({ message, tail }) {
        worker = undefined;
        waiting?.({ ended: "crashed", detail: `${message}\n${tail}` });
      },
    });
  return {
    name: "inspector",
    async take({ kind, ending, bytes }) {
      const path = join(dir, `${files++}.${ending}`);
      writeFileSync(path, bytes);
      worker ??= start();
      const { promise, resolve: done } = Promise.withResolvers<Outcome>();
      waiting = done;
      if (kind === "gguf") worker.send({ type: "inspect", path, hash: false });
      else worker.send({ type: "unpack", path, format: ending === "zip" ? "zip" : "tar.gz", into: null });
      const outcome = await late(promise, hung);
      if (files % 100 === 0) peak = Math.max(peak, await peakOf(worker?.pid));
      if (outcome.ended === "hung") await worker?.stop("it hangs");
      rmSync(path, { force: true });
      return outcome;
    },
    peakBytes: () => peak,
    async close() {
      peak = Math.max(peak, await peakOf(worker?.pid));
      waiting = undefined;
      await supervisor.stopAll("over");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** Images and sounds, scored by untrained models. */
export function detectorTarget(dir: string): Target {
  const detector = new Detector({ modelsDir: writeModels(join(dir, "models"), FAKES), maxPixels: 100e6, threads: 1 });
  let peak = 0;
  let files = 0;
  return {
    name: "detector",
    async take({ bytes, models }) {
      const deaths = detector.exits.length;
      const scoring = detector.score(bytes, { models }).then(
        ({ status, scored, refused }): Outcome => {
          if (status === 200 && scored) return { ended: "accepted", detail: "" };
          if (status === 422 && refused) return { ended: "refused", detail: refused.code };
          return { ended: "wrong", detail: `the worker answered ${status}` };
        },
        (error: unknown): Outcome => ({
          ended: detector.exits.length > deaths ? "crashed" : "wrong",
          detail: `${error}\n${detector.exits.at(-1) ?? ""}`,
        }),
      );
      const outcome = await late(scoring, hung);
      if (files++ % 100 === 0 && outcome.ended !== "crashed")
        peak = Math.max(peak, await detector.peakBytes().catch(() => 0));
      return outcome;
    },
    peakBytes: () => peak,
    async close() {
      peak = Math.max(peak, await detector.peakBytes().catch(() => 0));
      await detector.close();
    },
  };
}

/** Rows, by the readers of the connector, in a child that does nothing else: a connector lives for one task only. */
export function rowsTarget(): Target {
  let child: Bun.Subprocess<"ignore", "inherit", "pipe"> | undefined;
  let waiting: ((outcome: Outcome) => void) | undefined;
  let peak = 0;
  let files = 0;
  const start = () =>
    Bun.spawn([process.execPath, join(import.meta.dir, "rows_child.ts")], {
      env: { PATH: process.env["PATH"] ?? "" },
      serialization: "advanced",
      stdin: "ignore",
      stdout: "inherit",
      stderr: "pipe",
      ipc: (message) => waiting?.(message as Outcome),
      async onExit(ended, code, signal) {
        child = undefined;
        const tail = await new Response(ended.stderr as ReadableStream).text().catch(() => "");
        waiting?.({ ended: "crashed", detail: `exit ${code ?? signal}\n${tail.slice(-2_000)}` });
      },
    });
  return {
    name: "rows",
    async take({ ending, bytes }) {
      child ??= start();
      const { promise, resolve: done } = Promise.withResolvers<Outcome>();
      waiting = done;
      child.send({ ending, bytes });
      const outcome = await late(promise, hung);
      if (files++ % 100 === 0) peak = Math.max(peak, await peakOf(child?.pid));
      if (outcome.ended === "hung") child?.kill("SIGKILL");
      return outcome;
    },
    peakBytes: () => peak,
    async close() {
      peak = Math.max(peak, await peakOf(child?.pid));
      waiting = undefined;
      child?.kill();
      await child?.exited;
    },
  };
}
