import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { basename } from "node:path";
import { eventsOf } from "../../../../test/fake_replicas.ts";
import { manyTrainings } from "../../../../test/fake_trainers.ts";
import { until } from "../../../../test/harness.ts";
import { namesIn } from "../../../sandbox/files/trees.ts";
import { usedBytes } from "../../data/storage_usage/service.ts";
import { keptCheckpoints } from "./state/checkpoint_files.ts";
import { pathsOf } from "./state/paths.ts";
import { recordStep } from "./state/progress.ts";

setDefaultTimeout(120_000);
const { app, close, closeAll } = manyTrainings();
afterEach(closeAll);

test("17.6: a job whose checkpoints exceed the quota is paused with all its progress, and resumes when there is room", async () => {
  const on = await app({ flags: { "quotas.checkpoint_bytes": 1 } });
  const id = on.add({ totalSteps: 50, saveSteps: 2 });
  const paused = await on.reaches(id, "paused");
  expect(paused.pauseReason).toBe("out of storage");
  expect(eventsOf(on, id)).toContain("job.paused");
  expect(on.notes(id).find(({ type }) => type === "job.paused")?.message).toContain("quotas.checkpoint_bytes");
  await until("its worker to end", () => on.row(id).runSince === null);
  const kept = keptCheckpoints(on.ctx.db, id);
  expect(kept.length).toBeGreaterThan(0);
  expect(kept.at(-1)?.step).toBe(on.row(id).step); // saved before it ended
  const names = kept.map(({ path }) => basename(path)).sort();
  const found = async () => [...(await namesIn(pathsOf(on.ctx, id).checkpoints))].sort();
  await until("those that are too many to go", async () => (await found()).length === names.length);
  expect(await found()).toEqual(names); // none is half written
  expect(usedBytes(on.ctx.db, { workspaceId: on.workspaceA, kind: "checkpoints" })).toBe(
    kept.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
  );
  const resumed = await on.call("POST", `/v1/training_jobs/${id}/resume`);
  expect([resumed.status, resumed.body.error.code]).toEqual([422, "quota_exceeded"]);
  const more = await on.call("POST", "/v1/training_jobs", { method: "sft" });
  expect([more.status, more.body.error.code]).toEqual([422, "quota_exceeded"]);
  const queued = on.add();
  expect((await on.reaches(queued, "paused")).pauseReason).toBe("out of storage");
  await close(on);
  const roomy = await app({ dir: on.dir });
  expect((await roomy.call("POST", `/v1/training_jobs/${id}/resume`)).status).toBe(200);
  await roomy.reaches(id, "completed");
  expect(roomy.steps(id)).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
});

test("17.6: a job waits with a reason while the disk has less free space than must stay free", async () => {
  const on = await app({ loop: false });
  const id = on.add();
  await close(on);
  const full = await app({ dir: on.dir, flags: { "storage.min_free_bytes": Number.MAX_SAFE_INTEGER } });
  await until("a reason", () => full.row(id).queueReason?.startsWith("waits for disk space"));
  expect((await full.call("GET", `/v1/training_jobs/${id}`)).body.queue_reason).toContain("storage.min_free_bytes");
  await close(full);
  const roomy = await app({ dir: on.dir });
  await roomy.reaches(id, "completed");
});

test.each([
  ["are kept", 1, 1],
  ["are not kept if the disk has less free space than must stay free", Number.MAX_SAFE_INTEGER, 0],
])("completions of a step %s, and its metrics are", async (_what, minFree, kept) => {
  const on = await app({ loop: false, flags: { "storage.min_free_bytes": minFree } });
  const id = on.add();
  const samples = [
    {
      prompt: "2 + 2",
      completion: "4",
      reward: 1,
      sub_rewards: {},
      advantage: 0,
      tokens: 1,
      truncated: false,
      error: null,
    },
  ];
  recordStep(on.ctx, id, { type: "step", step: 1, epoch: 0, values: { loss: 1 }, eta_ms: null, samples, alarms: [] });
  expect((await on.call("GET", `/v1/traces?job_id=${id}`)).body.data).toHaveLength(kept);
  expect(on.row(id).latestMetrics).toMatchObject({ loss: 1 });
});
