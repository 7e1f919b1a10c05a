// tier: all (trains models)
/** The output of a command is counted while it is stored, against the quota and the free space that must stay. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { manyTrainings, type TrainingApp } from "../../../../../test/fake_trainers.ts";
import { tarBytes } from "../../../../lib/archive/tar_write.ts";
import { formatBytes } from "../../../../lib/bytes.ts";
import { DiskSpace } from "../../../../platform/machine/disk.ts";
import { Meters } from "../../../../platform/storage/meter.ts";
import { sessionJail } from "../../../../sandbox/jail/session_jail.ts";
import { jailSupport } from "../../../../sandbox/jail/support.ts";
import { usedBytes } from "../../../data/storage_usage/service.ts";

setDefaultTimeout(120_000);
const support = await jailSupport(sessionJail("/tmp")).catch((error) => ({
  ok: false as const,
  reason: String(error),
}));
const jailed = test.skipIf(!support.ok); // there can be no sessions on this host, and so no custom jobs

const { app, closeAll } = manyTrainings();
afterEach(closeAll);

const MB = 1_000_000;
const SPARSE = "for i in $(seq 16); do truncate -s 60M output/f$i; done"; // 1 GB that takes no block
const ARCHIVE_BYTES = tarBytes(Array.from({ length: 16 }, (_, i) => ({ name: `f${i}`, size: 60 * 2 ** 20 })));
const run = (on: TrainingApp, command: string) =>
  on.add({ method: "custom", baseModel: null, lora: null, command, totalSteps: 0, memoryBytes: 0 });
const storedBytes = async (on: TrainingApp) =>
  (await on.ctx.storage.list("jobs/")).items.reduce((sum, { bytes }) => sum + bytes, 0);
const objectBytes = async (on: TrainingApp) => {
  const found = Bun.spawnSync(["du", "-sb", `${on.dir}/storage/objects`, `${on.dir}/storage/tmp`]).stdout.toString();
  return found
    .trim()
    .split("\n")
    .reduce((sum, line) => sum + Number.parseInt(line, 10), 0);
};

jailed("S6a: sparse output beyond the quota fails the job, and nothing of it is stored", async () => {
  const flags = { "sessions.disk_mib": 64, "quotas.checkpoint_bytes": 10 * MB };
  const on = await app({ flags });
  const job = await on.reaches(run(on, SPARSE), "failed", 60_000);
  expect(job.error?.message).toContain("quotas.checkpoint_bytes");
  expect(job.error?.message).toContain(String(10 * MB));
  expect(job.error?.message).toContain(String(ARCHIVE_BYTES));
  expect(await storedBytes(on)).toBe(0);
  expect(await objectBytes(on)).toBeLessThan(10 * MB);
  expect(usedBytes(on.ctx.db, { workspaceId: on.workspaceA, kind: "checkpoints" })).toBe(0);
});

jailed("S6a: sparse output within the quota is stored whole, and counts with its holes", async () => {
  const on = await app({ flags: { "sessions.disk_mib": 64, "quotas.checkpoint_bytes": 10 * MB } });
  const job = await on.reaches(run(on, "truncate -s 5M output/f"), "completed", 60_000);
  const used = usedBytes(on.ctx.db, { workspaceId: on.workspaceA, kind: "checkpoints" });
  expect(used).toBeGreaterThan(5 * 2 ** 20);
  expect(await storedBytes(on)).toBe(used);
  expect(job.error).toBeNull();
});

jailed("S6a: sparse output beyond the free space fails the job, and nothing of it is stored", async () => {
  const on = await app({ flags: { "sessions.disk_mib": 64, "storage.min_free_bytes": 1 } });
  const fakeDisk = new DiskSpace(on.ctx, () => 300 * MB);
  Object.assign(on.ctx.state.storageUsage, { meters: new Meters(fakeDisk) });
  const job = await on.reaches(run(on, SPARSE), "failed", 60_000);
  expect(job.error?.message).toContain("storage.min_free_bytes");
  expect(job.error?.message).toContain(formatBytes(ARCHIVE_BYTES));
  expect([await storedBytes(on), usedBytes(on.ctx.db, { workspaceId: on.workspaceA, kind: "checkpoints" })]).toEqual([
    0, 0,
  ]);
  expect(await objectBytes(on)).toBeLessThan(MB);
});
