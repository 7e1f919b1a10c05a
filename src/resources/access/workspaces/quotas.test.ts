/** The quotas of a workspace that are not bytes: rows, jobs at once, GPU hours, requests. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { fakeClock, manyApps, tempDir, testApp } from "../../../../test/harness.ts";
import { jobsApp } from "../../../../test/jobs_kit.ts";
import { write } from "../../../platform/db/db.ts";
import { usageHours } from "../../money/cost/table.ts";
import { heldBack } from "../../training/training_jobs/state/queue.ts";

setDefaultTimeout(120_000);
const { open, closeAll } = manyApps();
afterEach(closeAll);

test("requests of all keys of a workspace share one limit, and another workspace is not touched", async () => {
  const clock = fakeClock();
  const app = open({ clock, flags: { "quotas.requests_per_minute": 6 } });
  const second = app.keyOf("alpha", ["*"]).key;
  for (let n = 0; n < 3; n++)
    for (const key of [app.keyA, second])
      expect((await app.call("GET", "/v1/volumes", undefined, { key })).status).toBe(200);
  const refused = await app.call("GET", "/v1/volumes", undefined, { key: second });
  expect(refused).toMatchObject({ status: 429, body: { error: { code: "rate_limited" } } });
  expect(refused.body.error.message).toContain("quotas.requests_per_minute");
  expect(refused.headers.get("retry-after")).toBe("10");
  expect((await app.call("GET", "/v1/volumes", undefined, { key: app.keyB })).status).toBe(200);
  clock.advance(10_000);
  expect((await app.call("GET", "/v1/volumes")).status).toBe(200);
});

test("rows beyond the quota are rejected, by append and by upload, and deleted datasets give room", async () => {
  const app = open({ flags: { "quotas.dataset_rows": 3 } });
  const rows = (n: number) => Array.from({ length: n }, (_, i) => ({ prompt: `${i}`, completion: "b" }));
  const { body: made } = await app.call("POST", "/v1/datasets", { name: "one", format: "completion" });
  const append = (n: number) => app.call("POST", `/v1/datasets/${made.id}/rows`, { rows: rows(n) });
  expect((await append(2)).status).toBeLessThan(300);
  const refused = await append(2);
  expect(refused).toMatchObject({ status: 422, body: { error: { code: "quota_exceeded", param: "/rows" } } });
  expect(refused.body.error.message).toContain("may hold 3 rows (quotas.dataset_rows), and 2 are in use");
  const form = new FormData();
  form.set("name", "two");
  form.set(
    "file",
    new File(
      [
        rows(2)
          .map((row) => JSON.stringify(row))
          .join("\n"),
      ],
      "rows.jsonl",
    ),
  );
  const upload = await app.call("POST", "/v1/datasets", undefined, { raw: form });
  expect(upload).toMatchObject({ status: 422, body: { error: { code: "quota_exceeded" } } });
  expect((await append(1)).status).toBeLessThan(300);
  await app.call("DELETE", `/v1/datasets/${made.id}`);
  expect((await app.call("POST", "/v1/datasets", undefined, { raw: form })).status).toBeLessThan(300);
});

test("a workspace that used its GPU hours creates no job until the month ends", async () => {
  const clock = fakeClock(Date.UTC(2026, 2, 30, 12));
  const on = await jobsApp({ clock, flags: { "quotas.gpu_hours": 5 } });
  const job = { method: "sft", dataset: await on.dataset("completion"), reward_source: undefined };
  await on.job(job);
  const hour = Math.floor(clock.now() / 3_600_000) - 24;
  const use = { workspaceId: on.workspaceA, kind: "job", provider: "local", gpuType: "cpu", jobs: 1 } as const;
  write(
    on.ctx.db,
    (tx) =>
      void tx
        .insert(usageHours)
        .values({ ...use, hour, deviceMs: 5 * 3_600_000, costMicros: 0, energyJoules: 0 })
        .run(),
  );
  const refused = await on.post(job);
  expect(refused).toMatchObject({ status: 429, body: { error: { code: "monthly_quota_exceeded" } } });
  expect(refused.body.error.message).toContain("used 5.0 GPU hours since the first of the month (UTC), 5 at most");
  expect(Number(refused.headers.get("retry-after"))).toBe(36 * 3_600);
  expect(heldBack(on.ctx, on.workspaceA)).toStartWith("waits for the next month");
  expect(heldBack(on.ctx, on.workspaceB)).toBeUndefined();
  clock.advance(2 * 86_400_000);
  expect((await on.post(job)).status).toBe(201);
  await on.close();
  on.remove();
});

test("a workspace may have quotas of its own, by id; the others keep those of all", async () => {
  const dir = tempDir();
  const first = testApp({ dir });
  const { workspaceA, keyA, keyB } = first;
  await first.close();
  const clock = fakeClock();
  const own = ["dataset_rows=1", "volume_bytes=3", "requests_per_minute=8"].map((text) => `${workspaceA} ${text}`);
  const flags = { "quotas.workspaces": own, "quotas.dataset_rows": 5, "volumes.quota_bytes": 100 };
  const app = open({ dir, clock, flags });
  for (const [key, most] of [
    [keyA, 1],
    [keyB, 5],
  ] as const) {
    const call = (method: string, path: string, json: object) => app.call(method, path, json, { key });
    const { id } = (await call("POST", "/v1/datasets", { name: "d", format: "completion" })).body;
    const rows = Array.from({ length: most + 1 }, () => ({ prompt: "a", completion: "b" }));
    const refused = await call("POST", `/v1/datasets/${id}/rows`, { rows });
    const setting = most === 1 ? "quotas.workspaces" : "quotas.dataset_rows";
    expect(refused.body.error.message).toContain(`may hold ${most} rows (${setting}), and 0 are in use`);
    expect((await call("POST", `/v1/datasets/${id}/rows`, { rows: rows.slice(1) })).status).toBeLessThan(300);
    await call("POST", "/v1/volumes", { name: "v" });
    const put = await app.call("PUT", "/v1/volumes/v/files/a", undefined, { raw: "four", key });
    expect([most, put.status]).toEqual([most, most === 1 ? 413 : 201]);
  }
  const read = async (key: string) => (await app.call("GET", "/v1/volumes", undefined, { key })).status;
  expect([await read(keyA), await read(keyA), await read(keyA), await read(keyA)]).toEqual([200, 200, 200, 429]);
  for (let n = 0; n < 20; n++) expect(await read(keyB)).toBe(200);
});

test.each(["research gpu_hours=1", "ws_1 gpu_hour=1", "ws_1 dataset_rows=1.5", "ws_1 dataset_rows"])(
  "the quota %p is refused with the names of all quotas",
  (text) => {
    expect(() => open({ flags: { "quotas.workspaces": [text] } })).toThrow("requests_per_minute");
  },
);
