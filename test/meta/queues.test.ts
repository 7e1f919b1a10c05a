/**
 * Every permit and every loop that workspaces share, with its fairness. A new one fails here until it is in a table. A
 * workspace that fills one of them with endless work does not shut another one out.
 */
import { afterAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Glob } from "bun";
import { Semaphore } from "../../src/platform/semaphore.ts";
import { LIMITS } from "../../src/resources/watching/webhooks/delivery/fairness.ts";
import type { LoopName } from "../../src/schedules.ts";
import { testApp } from "../harness.ts";

const SRC = join(import.meta.dir, "../../src");
const app = testApp();
afterAll(() => app.close().then(app.remove));

/** In `ctx.state`, with default settings: permits, those that one workspace may hold, callers of it that may wait. */
const SHARED: Record<string, [permits: number, mostEach: number, mostWaitingEach: number]> = {
  "codeArtifacts.inspections": [3, 2, 64],
  "datasets.checks": [12, 4, 64],
  "datasets.imports": [12, 4, 64],
  "datasets.reads": [12, 4, 1_000],
  "detection.detector.heldBytes": [402_653_184, 268_435_456, 64],
  "detection.detector.permits": [17, 16, 128],
  "detection.items": [9, 8, 64],
  "experiments.permits": [16, 1, 64],
  "http.longReads": [4, 3, 64],
  "hubPushes.permits": [2, 1, 64],
  "inferenceBatches.permits": [12, 8, 64],
  "models.downloads": [3, 2, 64],
  "models.hashes.turns": [2, 1, 256],
  "models.headers.turns": [2, 1, 256],
  "models.quantizations": [2, 1, 64],
  "models.templates": [3, 2, 64],
  "people.hashing": [2, 1, 64], // by address: at a sign-in no workspace is known
  "responses.permits": [12, 8, 64],
  "rewards.processes": [8, 7, 256],
  "sessions.execs": [8, 7, 256],
  "tracker.permits": [16, 8, 64],
  "trainingJobs.exports": [2, 1, 64],
  "trainingJobs.previews": [3, 2, 64],
  "vectorStores.permits": [4, 2, 64],
};

/** All uses in the source: the file and the reason why a permit is not shared, or `shared`. */
const USES = [
  "http/limits/long_reads.ts: shared",
  "platform/outside.ts: shared",
  "resources/other_apis/batches/live.ts: shared",
  "resources/other_apis/responses/live.ts: shared",
  "resources/other_apis/vector_stores/live.ts: shared",
  "resources/training/code_artifacts/live.ts: shared",
  "resources/data/datasets/live.ts: a dataset belongs to one workspace",
  "resources/data/datasets/live.ts: shared",
  "resources/data/datasets/live.ts: shared",
  "resources/data/datasets/live.ts: shared",
  "resources/detection/live.ts: shared",
  "resources/detection/worker.ts: a file has its fair turn before it gets here",
  "resources/detection/worker.ts: shared",
  "resources/detection/worker.ts: shared",
  "resources/quality/evaluators/kinds/judge.ts: the items of one evaluation",
  "resources/quality/experiments/live.ts: shared",
  "resources/serving/models/files/inspector.ts: shared",
  "resources/serving/models/live.ts: shared",
  "resources/serving/models/live.ts: shared",
  "resources/serving/models/live.ts: shared",
  "resources/watching/monitors/online.ts: shared", // made for each run of the loop: 12 permits, 8 each
  "resources/access/people/live.ts: shared",
  "resources/training/reward_functions/live.ts: shared",
  "resources/machines/sessions/live.ts: shared",
  "resources/training/hub_pushes/live.ts: shared",
  "resources/training/tracker/live.ts: shared",
  "resources/training/training_jobs/state/live.ts: shared",
  "resources/training/training_jobs/state/live.ts: shared",
  "sandbox/reward/scorer.ts: the calls of one job",
  "workers/detector/gate.ts: the server lets files in by fair turns",
];

/** `turns`: a semaphore above. `server`: no work of a workspace waits in it. Others: why one workspace holds up no other. */
const LOOPS: Record<LoopName, string> = {
  "annotation_queues.append": "only what a crash left, all of it in each run",
  "annotation_queues.prune": "server",
  "api_keys.prune": "server",
  "api_keys.record_uses": "server",
  "audit.prune": "server",
  "backup.create": "server",
  "backup.log": "server",
  "browser_sessions.prune": "server",
  "browser_sessions.record_uses": "server",
  "batches.prune": "server",
  "batches.run": "turns: inferenceBatches.permits",
  "billing.merge": "server",
  "clock.observe": "server",
  "clouds.prune": "server",
  "clouds.reconcile": "commands of the operator run side by side; clouds limit their machines (max_machines)",
  "code_artifacts.sweep": "server",
  "datasets.snapshots": "one after the other; a large hash only delays automatic snapshots",
  "conversations.prune": "server",
  "datasets.sweep": "server",
  "deployments.prefixes": "server",
  "deployments.prune": "server",
  "deployments.reconcile": "starts do not wait for each other; memory is leased by the ledger",
  "detection.batches": "turns: detection.items",
  "detection.prune": "server",
  "energy.sample": "server",
  "events.prune": "server",
  "experiments.run": "turns: experiments.permits",
  "experiments.sweep": "server",
  "files.prune": "server",
  "fine_tuning.deploy": "one short commit for each job",
  "http.renew_acme": "server",
  "http.renew_tls": "server",
  "hub_pushes.run": "turns: hubPushes.permits",
  "idempotency.prune": "server",
  "metrics.push": "server",
  "metrics.store": "server",
  "models.download": "turns: models.downloads",
  "models.hash": "files of the operator",
  "models.quantize": "turns: models.quantizations",
  "models.scan": "files of the operator",
  "monitors.evaluate": "short reads, in slices of the loop",
  "monitors.prune": "server",
  "monitors.score": "turns: a semaphore for each run",
  "regions.observe": "regions are asked side by side, each with a timeout",
  "responses.prune": "server",
  "responses.run": "turns: responses.permits",
  "rollouts.expire": "server",
  "sessions.prune": "server",
  "sessions.reconcile": "short reads; sessions.max_per_workspace",
  "storage.sweep": "server",
  "storage.verify": "server",
  "tracker.send": "turns: tracker.permits",
  "traces.prune": "server",
  "training_jobs.prune": "server",
  "training_jobs.reconcile": "jobs: fewest running, then longest ago (queue_order.ts); exports: trainingJobs.exports",
  "training_jobs.remote": "regions side by side; a region belongs to one workspace",
  "training_jobs.sweep": "server",
  "training_jobs.system": "server",
  "vector_stores.index": "turns: vectorStores.permits",
  "vector_stores.prune": "server",
  "volumes.sweep": "server",
  "webhooks.deliver": "endpoints take turns; a workspace has a share of the attempts",
  "webhooks.fan_out": "short commits of 1,000 rows at most, in order of the events",
  "webhooks.prune": "server",
  "workspaces.prune": "server",
  "workspaces.purge": "server",
};

function sharedIn(value: object, path: string, seen = new Set<object>()): [string, Semaphore][] {
  if (seen.has(value)) return [];
  seen.add(value);
  if (value instanceof Semaphore) return value.isShared ? [[path, value]] : [];
  return Object.entries(value).flatMap(([name, part]) =>
    typeof part === "object" && part !== null ? sharedIn(part, path === "" ? name : `${path}.${name}`, seen) : [],
  );
}
const shared = sharedIn(app.ctx.state, "");

test("S7: every shared permit is in the table with its fairness", () => {
  const found = shared.map(([path, { permits, mostEach, mostWaitingEach }]) => [
    path,
    [permits, mostEach, mostWaitingEach],
  ]);
  expect(Object.fromEntries(found)).toEqual(SHARED);
});

test("S7: every semaphore in the source is shared and fair, or says why it is not shared", async () => {
  const uses: string[] = [];
  for (const path of await Array.fromAsync(new Glob("**/*.ts").scan(SRC))) {
    if (path.endsWith(".test.ts") || path === "platform/semaphore.ts") continue;
    const text = readFileSync(join(SRC, path), "utf8");
    for (const [, reason] of text.matchAll(/new Semaphore\(|Semaphore\.unshared\(\s*"([^"]+)"/g))
      uses.push(`${path}: ${reason ?? "shared"}`);
  }
  expect(uses.sort()).toEqual(USES.toSorted());
});

test("S7: every loop says how it is fair, by a queue that exists", () => {
  for (const why of Object.values(LOOPS)) {
    const [, name] = /^turns: ([a-z]\w+\.\w+)$/i.exec(why) ?? [];
    if (name) expect(Object.keys(SHARED)).toContain(name);
  }
});

test("S7: webhooks of one workspace have half of the attempts at most", () => {
  expect(LIMITS.workspaceShare).toBeLessThanOrEqual(0.5);
});

/** Endless work of one workspace: more than may hold a permit or wait. */
function fillWith(semaphore: Semaphore, workspaceId: string, permits: number, signal: AbortSignal) {
  const count = Math.ceil(semaphore.permits / permits) + semaphore.mostWaitingEach;
  return Array.from({ length: count }, () =>
    semaphore.acquire({ workspaceId, signal }, { permits }).then(
      (release) => release,
      (error) => (error as { code: string }).code,
    ),
  );
}

for (const [path, semaphore] of shared)
  test(`S7: ${path}: workspaces that fill it with endless work shut no other one out`, async () => {
    const { permits, mostEach } = semaphore;
    const many = permits > 1_000 ? 10_000_000 : 1; // bytes
    const hostile = Math.min(8, Math.floor((permits - mostEach) / many));
    expect(hostile).toBeGreaterThan(0);
    const leave = new AbortController();
    const held = Array.from({ length: hostile }, (_, i) => fillWith(semaphore, `hostile ${i}`, many, leave.signal));
    const last = held.map((waits) =>
      Promise.race([...waits.slice(-1), new Promise((resolve) => setImmediate(resolve))]),
    );
    expect(await Promise.all(last)).toEqual(last.map(() => "queue_full"));
    const other = semaphore.tryAcquire("other", many);
    expect(other).toBeFunction();
    other?.();
    leave.abort(new Error("left"));
    for (const each of await Promise.all(held.flat())) if (typeof each === "function") each();
    expect([semaphore.free, semaphore.waiting]).toEqual([permits, 0]);
  });
