/** Files that a node sends: counted as they are written, and given up if they come damaged again and again. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fakeNode } from "../../../../../test/fake_node.ts";
import { manyTrainings, type TrainingApp } from "../../../../../test/fake_trainers.ts";
import { fakeClock, until } from "../../../../../test/harness.ts";
import { sha256Bytes } from "../../../../platform/files.ts";
import type { Link } from "../../../../platform/providers/link.ts";
import { NodeProvider } from "../../../../platform/providers/node_provider.ts";
import type { FromTrainer } from "../../../../workers/protocol_trainer.ts";
import { usedBytes } from "../../../data/storage_usage/service.ts";
import { openRunOf } from "../remote_runs.ts";
import { reconcile } from "../running/reconcile.ts";
import { keptCheckpoints } from "../state/checkpoint_files.ts";

setDefaultTimeout(60_000);
const { app, closeAll } = manyTrainings();
afterEach(closeAll);

const MB = 1_000_000;
const begun: FromTrainer = { type: "begun", step: 0, total_steps: 5, device: "a node", memory_bytes: 1 };
const checkpoint: FromTrainer = {
  type: "checkpoint",
  step: 1,
  path: "/far/checkpoints/step-000001",
  size_bytes: 1,
  metrics: { loss: 1 },
};

type FarFile = { content: Uint8Array; declares?: { bytes?: number; sha256?: string } };

/** The link to a node that declares and sends what the test says. Everything above the link is real. */
function fakeLink(files: Record<string, FarFile>) {
  const sent = { bytes: 0, times: 0 };
  const link: Link = {
    async run({ argv, to }) {
      const [, , verb, , path = ""] = argv;
      if (verb === "files")
        return Buffer.from(
          JSON.stringify(
            Object.entries(files).map(([name, { content, declares }]) => ({
              path: `${path}/${name}`,
              bytes: content.byteLength,
              sha256: sha256Bytes(content),
              ...declares,
            })),
          ),
        );
      if (verb !== "cat") return Buffer.from("there");
      sent.times++;
      const content = files[path.split("/").at(-1) ?? ""]?.content ?? new Uint8Array();
      await to?.(
        (async function* () {
          for (let at = 0; at < content.byteLength; at += 65_536) {
            const piece = content.subarray(at, at + 65_536);
            sent.bytes += piece.byteLength;
            yield piece;
          }
        })(),
      );
      return new Uint8Array();
    },
    open: () => Promise.reject(new Error("not used")),
  };
  return { link, sent };
}

const state = { content: Buffer.from(JSON.stringify({ step: 1 })) };

/** A running job on a node whose files come over `link`. */
async function running(on: TrainingApp, files: Record<string, FarFile>) {
  const node = fakeNode(on, { name: "far-away" });
  const { link, sent } = fakeLink(files);
  const options = { region: node.region, kind: "ssh", link, root: "verk", executable: process.execPath };
  const real = new NodeProvider({ ...options, rateMicros: null });
  node.provider.pull = (...args) => real.pull(...args);
  const id = on.add({ region: node.region, provider: "ssh" });
  await reconcile(on.ctx);
  await until("the run", () => openRunOf(on.ctx.db, id));
  await node.sync();
  node.says({ job: id, attempt: 1 }, begun, checkpoint);
  return { node, sent, id };
}

const used = (on: TrainingApp) => usedBytes(on.ctx.db, { workspaceId: on.workspaceA, kind: "checkpoints" });
const staged = (on: TrainingApp, id: string) => existsSync(join(on.dir, "remote", `${id}-pull`));

test("S6b: a checkpoint that a node declares beyond the quota is refused before its first byte", async () => {
  const on = await app({ loop: false, flags: { "quotas.checkpoint_bytes": MB } });
  const large = { content: new Uint8Array(10), declares: { bytes: 1_500 * MB } };
  const { node, sent, id } = await running(on, { "state.json": state, "adapter.gguf": large });
  await node.sync();
  expect(sent.bytes).toBe(0);
  expect(on.row(id)).toMatchObject({ status: "paused", pauseReason: "out of storage" });
  const said = on.notes(id).map(({ message }) => message);
  expect(said.join()).toContain("quotas.checkpoint_bytes");
  expect(said.join()).toContain(String(1_500 * MB + state.content.byteLength));
  expect([used(on), staged(on, id)]).toEqual([0, false]);
});

test("S6b: a node that sends more than it declared is cut off, and the checkpoint counts by what it has", async () => {
  const clock = fakeClock();
  const on = await app({ loop: false, clock, flags: { "quotas.checkpoint_bytes": MB } });
  const lying = { content: new Uint8Array(20 * MB), declares: { bytes: 1_000 } };
  const { node, sent, id } = await running(on, { "state.json": state, "adapter.gguf": lying });
  await node.sync();
  expect(sent.bytes).toBeLessThan(MB);
  expect([keptCheckpoints(on.ctx.db, id), staged(on, id)]).toEqual([[], false]);
  lying.content = new Uint8Array(1_000);
  Object.assign(lying, { declares: undefined });
  clock.advance(60_000);
  await node.sync();
  const [kept] = keptCheckpoints(on.ctx.db, id);
  expect(kept?.sizeBytes).toBe(1_000 + state.content.byteLength); // the node had said 1
  expect(used(on)).toBe(1_000 + state.content.byteLength);
});

test("S6b: a file with a wrong hash is fetched three times with growing pauses, and then the job fails", async () => {
  const clock = fakeClock();
  const on = await app({ loop: false, clock });
  const wrong = { content: new Uint8Array(100), declares: { sha256: "0".repeat(64) } };
  const { node, sent, id } = await running(on, { "adapter.gguf": wrong });
  const tries: number[] = [];
  for (let second = 0; second < 120 && on.row(id).status !== "failed"; second++) {
    const before = sent.times;
    await node.sync();
    if (sent.times > before) tries.push(second);
    clock.advance(1_000);
  }
  expect(tries).toEqual([0, 5, 25]);
  const { error } = on.row(id);
  expect(error?.code).toBe("worker_crashed");
  expect(error?.message).toContain("far-away");
  expect(error?.message).toContain("adapter.gguf");
  await node.sync();
  expect(sent.times).toBe(3);
});

test("S6b: a restart does not begin the tries anew", async () => {
  const on = await app({ loop: false });
  const wrong = { content: new Uint8Array(100), declares: { sha256: "0".repeat(64) } };
  const { node, sent, id } = await running(on, { "adapter.gguf": wrong });
  for (let i = 0; i < 5; i++) {
    on.ctx.state.trainingJobs.pullsNotBefore.clear(); // a new process knows no pause
    await node.sync();
  }
  expect(sent.times).toBe(3);
  expect(on.row(id).status).toBe("failed");
});
