/** A node in memory: the test writes the records of its runs and sees what the server asks of it. */
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { newId } from "../src/lib/ids.ts";
import { write } from "../src/platform/db/db.ts";
import type { Handle, NodeInfo, Observation } from "../src/platform/providers/protocol.ts";
import { type Submission, Unreachable } from "../src/platform/providers/types.ts";
import type { RegionProvider } from "../src/resources/machines/regions/live.ts";
import { regions } from "../src/resources/machines/regions/table.ts";
import { syncRemote } from "../src/resources/training/training_jobs/remote/sync.ts";
import type { FromTrainer } from "../src/workers/protocol_trainer.ts";
import type { TestApp } from "./harness.ts";

const GIB = 2 ** 30;
export const INFO: NodeInfo = {
  version: "0",
  architecture: "x86_64",
  cpus: 4,
  memory_bytes: 64 * GIB,
  free_bytes: 64 * GIB,
  gpus: [],
};

type Run = Pick<Observation, "state"> & Partial<Pick<Observation, "lost">> & { records: string; requests: string[] };

/** Adds a region whose node is this one. */
export function fakeNode(app: TestApp, more: Partial<typeof regions.$inferInsert> = {}) {
  const region = addRegion(app, more);
  const runs = new Map<string, Run>();
  const submissions: Submission[] = [];
  const removed: string[] = [];
  const saved = new Set<string>();
  const link = { isCut: false };
  const keyOf = ({ job, attempt }: Handle) => `${job}/${attempt}`;
  const reached = <T>(value: T): Promise<T> =>
    link.isCut ? Promise.reject(new Unreachable("the link is cut")) : Promise.resolve(value);
  const provider: RegionProvider = {
    info: () => reached(INFO),
    offers: () => reached([]),
    async submit(submission) {
      await reached(null);
      submissions.push(submission);
      runs.set(keyOf(submission.plan.handle), { state: "running", records: "", requests: [] });
      return submission.plan.handle;
    },
    start: () => reached(undefined),
    observe: (handles) =>
      reached(
        handles.map((handle): Observation => {
          const run = runs.get(keyOf(handle));
          return {
            state: run?.state ?? "missing",
            bytes: Buffer.byteLength(run?.records ?? ""),
            heartbeat_at: null,
            lost: run?.lost ?? null,
          };
        }),
      ),
    async cancel(handle, how) {
      await reached(null);
      runs.get(keyOf(handle))?.requests.push(how);
    },
    fetch: (handle, from) => reached(Buffer.from(runs.get(keyOf(handle))?.records ?? "").subarray(from)),
    async pull(_, name, into) {
      await reached(null);
      mkdirSync(into);
      writeFileSync(join(into, "state.json"), JSON.stringify({ step: Number(name.slice(5)) }));
      copyFileSync(join(app.dir, "adapter.gguf"), join(into, "adapter.gguf"));
      return true;
    },
    checkpoints(_, drop) {
      for (const name of drop) saved.delete(name);
      return reached([...saved].sort());
    },
    async remove(job) {
      await reached(null);
      removed.push(job);
    },
  };
  app.ctx.state.regions.providers.set(region, provider);
  const runOf = (handle: Handle) => {
    const run = runs.get(keyOf(handle));
    if (!run) throw new Error(`the node has no run ${keyOf(handle)}`);
    return run;
  };
  return {
    region,
    runs,
    submissions,
    removed,
    saved,
    link,
    runOf,
    provider,
    /** The run reports. */
    says(handle: Handle, ...messages: FromTrainer[]) {
      for (const message of messages) {
        if (message.type === "checkpoint") saved.add(message.path.split("/").at(-1) ?? "");
        runOf(handle).records += `${JSON.stringify({ time: 1, message })}\n`;
      }
    },
    ends(handle: Handle, exit: { kind: string; message?: string; tail?: string }) {
      const run = runOf(handle);
      run.records += `${JSON.stringify({ time: 1, exit: { message: "", tail: "", killed: false, ...exit } })}\n`;
      run.state = "ended";
    },
    /** One turn of the loop, to its end. */
    async sync(on: TestApp = app) {
      on.ctx.state.regions.providers.set(region, provider);
      syncRemote(on.ctx);
      await Promise.all(on.ctx.state.trainingJobs.syncing.values());
    },
  };
}

function addRegion(app: TestApp, more: Partial<typeof regions.$inferInsert>): string {
  const now = app.ctx.clock.now();
  const id = newId("reg", now);
  const row = {
    id,
    workspaceId: app.workspaceA,
    name: id,
    kind: "ssh" as const,
    address: "node.example.com",
    port: 22,
    user: "verk",
    sshKeyId: "ssh_none",
    workDir: "verk",
    hostKey: "ssh-ed25519 AAAA",
    rateMicros: null,
    info: INFO,
    seenAt: now,
    fault: null,
    createdAt: now,
    updatedAt: now,
    ...more,
  };
  write(app.ctx.db, (tx) => tx.insert(regions).values(row).run());
  return id;
}
