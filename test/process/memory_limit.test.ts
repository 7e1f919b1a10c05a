// tier: all (whole paths on the executable)
/**
 * The executable in a control group with little memory. A worker for which memory runs out is ended by the kernel; the
 * server lives and says why. Needs root and a memory controller.
 */
import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MIB } from "../../src/lib/units.ts";
import { violations } from "../fault/invariants.ts";
import { tempDir, until } from "../harness.ts";
import { allowLongTurns } from "../long_turns.ts";
import { openTraining } from "./training_kit.ts";

allowLongTurns("while the group is at its limit, the kernel reclaims memory in the time of the server");

const LONG_MS = 120_000;
const dir = tempDir();
const GROUP = openGroup(`verk-test-${process.pid}`);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const OTHERS = 4;
const OTHER_MIB = 128;
const ROOM_MIB = 40; // a trainer starts in it, and training needs more
const SFT = {
  method: "sft",
  reward_source: null,
  reward_language: null,
  hyperparameters: { max_steps: 3, per_device_train_batch_size: 2, max_length: 32 },
};

type Group = { path: string; limit: string; none: string };

/** A group of version 1 or 2 with its files; undefined where the tests may not make one. */
function openGroup(name: string): Group | undefined {
  const first = { path: join("/sys/fs/cgroup/memory", name), none: "-1" };
  const second = { path: join("/sys/fs/cgroup", name), none: "max" };
  for (const [group, limit] of [
    [first, "memory.limit_in_bytes"],
    [second, "memory.max"],
  ] as const)
    try {
      mkdirSync(group.path);
      if (existsSync(join(group.path, limit))) return { ...group, limit: join(group.path, limit) };
      rmdirSync(group.path);
    } catch {} // no such controller, or no right to it
  return undefined;
}

/** Memory of its processes without pages of files, which the kernel can drop. */
const heldBytes = ({ path }: Group) =>
  Number(/^(?:rss|anon) (\d+)$/m.exec(readFileSync(join(path, "memory.stat"), "utf8"))?.[1]);

/** Other programs of the group that hold memory, each too small to be what the kernel ends first. */
function holding(group: Group): AsyncDisposable {
  const code = `globalThis.held = Buffer.alloc(${OTHER_MIB * MIB}, 1); setInterval(() => {}, 1e6)`;
  const argv = [...inside(group), process.execPath, "-e", code];
  const children = Array.from({ length: OTHERS }, () => Bun.spawn(argv, { stdout: "ignore", stderr: "ignore" }));
  return {
    async [Symbol.asyncDispose]() {
      for (const child of children) child.kill("SIGKILL");
      await Promise.all(children.map(({ exited }) => exited));
    },
  };
}

const inside = ({ path }: Group) => ["sh", "-c", 'echo $$ > "$0" && exec "$@"', join(path, "cgroup.procs")];

if (!GROUP) test.skip("a limit of memory (needs root and a memory controller of control groups)", () => {});
else
  test(
    "memory runs out for a trainer: it is ended, the server lives, the job is retried and then fails with the reason",
    async () => {
      const limitMib = (mib: number) => writeFileSync(GROUP.limit, String(Math.floor(mib) * MIB));
      limitMib(2_048);
      const env = { VERK_TRAINING__THREADS: "1", VERK_HTTP__RATE_LIMIT_PER_SECOND: "0" };
      const on = await openTraining({ dir, env, prefix: inside(GROUP) });
      try {
        const [device] = (await on.call("GET", "/gpu")).data;
        expect(device.memory_total_bytes).toBeLessThanOrEqual(2_048 * MIB);
        const dataset = await on.prepare((i) => ({ prompt: `${i}+1=`, completion: `${i + 1}` }));
        const before = heldBytes(GROUP);
        await using _others = holding(GROUP);
        await until("the others", () => heldBytes(GROUP) >= before + OTHERS * OTHER_MIB * MIB, LONG_MS);
        limitMib(heldBytes(GROUP) / MIB + ROOM_MIB);
        const id = await on.create(dataset, 1, SFT);
        const job = await on.ended(id);
        expect([job.status, job.error?.code]).toEqual(["failed", "out_of_memory"]);
        expect(job.error.message).toContain("most likely because memory ran out");
        const { data } = await on.call("GET", `/training_jobs/${id}/events?limit=100`);
        const retries = (data as { type: string; message: string }[]).filter(({ type }) => type === "job.requeued");
        expect(retries.map(({ message }) => message)).toEqual([
          expect.stringContaining("retrying once with micro-batches"),
        ]);
        writeFileSync(GROUP.limit, GROUP.none);
        expect(await on.ended(await on.create(dataset, 2, SFT))).toMatchObject({ status: "completed", error: null });
        expect((await fetch(`${on.server.url}/readyz`)).status).toBe(200);
      } finally {
        writeFileSync(GROUP.limit, GROUP.none);
        await on.server.kill("SIGTERM");
        await until("the group to be empty", () => {
          rmdirSync(GROUP.path);
          return true;
        });
      }
      expect(violations(dir)).toEqual([]);
    },
    2 * LONG_MS,
  );
