// tier: all (sweeps of faults)
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { runBatches } from "../../src/resources/detection/batches/runner.ts";
import { detecting, imageOf } from "../detection_kit.ts";
import { atEveryFailpoint, tempDir, until } from "../harness.ts";
import { randomFor, SEED, sweep } from "../sweep.ts";
import { startTlsReceiver, TLS_FLAGS } from "../webhooks_kit.ts";
import { violations } from "./invariants.ts";

const IMAGES = sweep({ quick: 30, full: 1_000 });
const LATEST = sweep({ quick: 3, full: 40 }); // failpoint of a life that is its last: a small batch passes few of them
const FIRST_LIVES = 4;
const never = new AbortController().signal;
/** Every process that names the data directory: after a kill there must soon be none. */
const survivors = (dir: string): string[] =>
  readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(dir);
    } catch {
      return false;
    }
  });

function readOf(dir: string) {
  const db = new Database(join(dir, "verk.db"), { readonly: true });
  const one = <T>(sql: string) => db.query(sql).get() as T;
  const facts = {
    batch: one<{ status: string; success_count: number }>("SELECT status, success_count FROM detection_batches"),
    detections: one<{ n: number }>("SELECT count(*) AS n FROM detections").n,
    hashes: one<{ n: number }>("SELECT count(DISTINCT image_hash) AS n FROM detections").n,
    account: one<{ credits_spent: number; month_requests: number }>(
      "SELECT credits_spent, month_requests FROM detection_accounts",
    ),
    told: db.query("SELECT event_type, status FROM webhook_deliveries").all(),
    completed: one<{ n: number }>("SELECT count(*) AS n FROM events WHERE type = 'detection_batch.completed'").n,
  };
  db.close();
  return facts;
}

test(`a batch of ${IMAGES}, its server killed at each failpoint: each image is scored, paid and reported once (seed ${SEED})`, async () => {
  const dir = tempDir();
  const random = randomFor("detection kills");
  const receiver = startTlsReceiver();
  const app = detecting({ dir, flags: TLS_FLAGS });
  const images = Array.from({ length: IMAGES }, (_, i) => ({ id: `n${i}`, image: imageOf({ score: i / IMAGES }) }));
  await app.call("PUT", "/v1/config", { webhookUrl: receiver.url });
  const sent = await app.call("POST", "/api/detect/batch", { images });
  expect(sent.status).toBe(202);
  await app.close();
  let kills = 0;
  const isOver = () => readOf(dir).told.length === 1 && receiver.got.length > 0;
  while (!isOver()) {
    // The first lives end at their first failpoint: how many a later life passes is chance.
    const failpoint = kills < FIRST_LIVES ? 1 : 1 + Math.floor(random() * LATEST);
    const child = Bun.spawn([process.execPath, join(import.meta.dir, "../aside/detecting_server.ts"), dir], {
      env: { PATH: process.env["PATH"] ?? "", HOME: dir, VERK_FAILPOINT: `*:${failpoint}` },
      stdout: "ignore",
      stderr: "inherit",
    });
    await until("the server to die or the batch to be told", () => child.signalCode !== null || isOver(), 120_000);
    if (child.signalCode === "SIGKILL") kills++;
    child.kill("SIGKILL");
    await child.exited;
    await until("its children to be gone", () => survivors(dir).length === 0);
  }
  const last = detecting({ dir, flags: TLS_FLAGS, loops: ["detection.batches", "webhooks.deliver"] });
  await until("the delivery to be settled", () => (readOf(dir).told[0] as { status: string }).status === "succeeded");
  await until("the images to be removed", () => readdirSync(join(dir, "detection")).length === 0);
  await last.close();
  const facts = readOf(dir);
  expect(facts).toEqual({
    batch: { status: "completed", success_count: IMAGES },
    detections: IMAGES,
    hashes: IMAGES,
    account: { credits_spent: IMAGES, month_requests: IMAGES },
    told: [{ event_type: "batch.completed", status: "succeeded" }],
    completed: 1,
  });
  expect(new Set(receiver.got.map(({ headers }) => headers.get("webhook-id"))).size).toBe(1);
  expect(new Set(receiver.got.map(({ body }) => body)).size).toBe(1);
  expect(JSON.parse(receiver.got[0]?.body ?? "")).toMatchObject({ data: { successCount: IMAGES, failureCount: 0 } });
  expect(violations(dir)).toEqual([]);
  expect(kills).toBeGreaterThanOrEqual(FIRST_LIVES);
  await receiver.stop();
  rmSync(dir, { recursive: true, force: true });
}, 300_000);

test("a crash at every failpoint of a batch's creation and work leaves a batch with all its images, or none", async () => {
  const crashes = await atEveryFailpoint(async (attempt) => {
    const dir = tempDir();
    const app = detecting({ dir });
    const images = [{ image: imageOf() }, { image: imageOf() }];
    let answered: string | undefined;
    await attempt(async () => {
      const { status, body } = await app.call("POST", "/api/detect/batch", { images });
      if (status === 202) answered = body.jobId;
      await runBatches(app.ctx, never);
    });
    await app.close().catch(() => {}); // the database may be broken by the crash
    const again = detecting({ dir });
    await runBatches(again.ctx, never);
    const rows = again.ctx.db.$client
      .query<{ id: string; status: string; success_count: number }, []>(
        "SELECT id, status, success_count FROM detection_batches",
      )
      .all();
    for (const row of rows) expect(row).toMatchObject({ status: "completed", success_count: 2 });
    if (answered !== undefined) expect(rows.map(({ id }) => id)).toContain(answered);
    expect(rows.length).toBeLessThan(2);
    const { n } = again.ctx.db.$client.query<{ n: number }, []>("SELECT count(*) AS n FROM detections").get() as {
      n: number;
    };
    expect(n).toBe(rows.length * 2);
    await again.close();
    expect(violations(dir)).toEqual([]);
    rmSync(dir, { recursive: true, force: true });
  });
  expect(crashes).toBeGreaterThan(4);
}, 120_000);
