// tier: all (whole paths on the executable)
/**
 * The clock of the executable jumps by a year and by an hour, in both directions, while it works. libfaketime changes the
 * time of day of the server; its steady clock and its workers go on as before.
 */
import { Database } from "bun:sqlite";
import { afterAll, expect, test } from "bun:test";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { violations } from "../fault/invariants.ts";
import { tempDir, until } from "../harness.ts";
import { startTlsReceiver, TLS_FLAGS } from "../webhooks_kit.ts";
import { openTraining } from "./training_kit.ts";

const LONG_MS = 120_000;
const YEAR_S = 365 * 86_400;
const HOUR_S = 3_600;
/** Seconds beside the right time, in order: each is a jump from the one before, and the last is right again. */
const OFFSETS = [YEAR_S, 0, -YEAR_S, 0, HOUR_S, -HOUR_S, 0];
const STEPS = 40;

const LIBRARY = readdirSync("/usr/lib", { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => join("/usr/lib", name, "faketime/libfaketimeMT.so.1"))
  .find((path) => Bun.file(path).size > 0);
const dir = tempDir();
const file = join(tempDir(), "offset");
const receiver = startTlsReceiver((_, count) => new Response(null, { status: count === 0 ? 503 : 204 }));
afterAll(async () => {
  await receiver.stop();
  rmSync(dir, { recursive: true, force: true });
});

const jump = (seconds: number) => writeFileSync(file, `${seconds < 0 ? "" : "+"}${seconds}`);

if (LIBRARY === undefined) test.skip("jumps of the clock (needs libfaketime)", () => {});
else
  test(
    "the clock jumps by years and hours: a job, retries, keys, idempotency and ids are as with a right clock",
    async () => {
      jump(0);
      const env = {
        LD_PRELOAD: LIBRARY,
        FAKETIME_TIMESTAMP_FILE: file,
        FAKETIME_NO_CACHE: "1",
        NO_FAKE_STAT: "1",
        DONT_FAKE_MONOTONIC: "1",
        FAKETIME_DONT_FAKE_MONOTONIC: "1",
        VERK_TRAINING__THREADS: "1",
        VERK_HTTP__RATE_LIMIT_PER_SECOND: "0",
        VERK_NETWORK__ALLOW: "127.0.0.1",
        VERK_NETWORK__CA_FILE: TLS_FLAGS["network.ca_file"],
      };
      const on = await openTraining({ dir, env });
      const key = await on.server.apiKey();
      const hourly = (await on.call("POST", "/api_keys", { name: "hour", scopes: ["read"], expires_at: inMinutes(30) }))
        .key;
      const statusWith = async (token: string) =>
        (await fetch(`${on.server.url}/v1/datasets`, { headers: { authorization: `Bearer ${token}` } })).status;
      const dataset = await on.prepare((i) => ({ prompt: `${i}+1=`, completion: `${i + 1}` }));
      const once = async () => {
        const headers = {
          authorization: `Bearer ${key}`,
          "content-type": "application/json",
          "idempotency-key": "once",
        };
        const body = JSON.stringify({ name: "once", format: "prompt" });
        return (await (await fetch(`${on.server.url}/v1/datasets`, { method: "POST", headers, body })).json()).id;
      };
      const first = await once();
      const webhook = await on.call("POST", "/webhooks", {
        url: `${receiver.url}/hook`,
        event_types: ["job.completed"],
      });
      const short = { max_steps: 1, per_device_train_batch_size: 2, max_length: 32 };
      const sft = { method: "sft", reward_source: null, reward_language: null };
      const early = await on.create(dataset, 1, { ...sft, hyperparameters: short });
      await on.ended(early);
      await until("the attempt that fails", () => receiver.got.length === 1, LONG_MS);
      const id = await on.create(dataset, 1, {
        ...sft,
        hyperparameters: { ...short, max_steps: STEPS },
        max_runtime_minutes: 30,
      });
      await until("a step", async () => (await on.call("GET", `/training_jobs/${id}`)).progress.step > 0, LONG_MS);

      const ids: string[] = [];
      for (const offset of OFFSETS) {
        jump(offset);
        await until("the server to see it", async () => Math.abs((await timeOf(on.server.url)) - offset) < 60, LONG_MS);
        ids.push((await on.call("POST", "/datasets", { name: `at ${offset}`, format: "prompt" })).id);
        expect(await once()).toBe(first);
        expect(await statusWith(hourly)).toBe(offset > 1_800 ? 401 : 200);
        const [delivery] = (await on.call("GET", `/webhooks/${webhook.id}/deliveries`)).data.slice(-1);
        expect(["pending", "succeeded"]).toContain(delivery.status);
      }
      expect(ids).toEqual([...ids].sort());
      expect(await on.ended(id)).toMatchObject({ status: "completed", error: null, progress: { step: STEPS } });
      expect((await on.streamOf(id)).map(({ step }) => step)).toEqual(Array.from({ length: STEPS }, (_, i) => i + 1));
      await until("the deliveries", () => new Set(receiver.got.map(({ body }) => body)).size === 2, LONG_MS);
      const { data } = await on.call("GET", `/webhooks/${webhook.id}/deliveries`);
      await until("them to be recorded", async () => {
        const { data } = await on.call("GET", `/webhooks/${webhook.id}/deliveries`);
        return data.every(({ status }: { status: string }) => status === "succeeded");
      });
      expect(data).toHaveLength(2);
      expect((await on.call("GET", `/datasets/${dataset}`)).num_rows).toBe(24);
      expect(on.server.stderr()).not.toMatch(/"level":"error"/);
      await on.server.kill("SIGTERM");
      expect(violations(dir)).toEqual([]);
      using db = new Database(join(dir, "verk.db"), { readonly: true });
      const { run_ms } = db.query("SELECT run_ms FROM training_jobs WHERE id = ?").get(id) as { run_ms: number };
      expect(run_ms).toBeLessThan(LONG_MS); // so much is charged
    },
    3 * LONG_MS,
  );

const inMinutes = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString();

/** Seconds of the server's clock beside ours, from the date of its answers. */
async function timeOf(url: string): Promise<number> {
  const { headers } = await fetch(`${url}/healthz`);
  return (Date.parse(headers.get("date") ?? "") - Date.now()) / 1_000;
}
