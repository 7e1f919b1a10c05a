import { afterEach, expect, test } from "bun:test";
import { atEveryFailpoint, manyApps, type TestApp, until } from "../../../../test/harness.ts";
import { numberIn, parsePrometheus } from "../../../../test/prometheus.ts";
import { durable } from "../../../platform/db/db.ts";
import { allFamilies } from "../../../platform/metrics.ts";
import * as workspaces from "../../access/workspaces/service.ts";
import { store } from "./store.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const scrape = async (app: TestApp, key = app.keyA) => {
  const { status, body, headers } = await app.call("GET", "/v1/metrics", undefined, { key });
  expect([status, headers.get("content-type")]).toEqual([200, "text/plain; version=0.0.4; charset=utf-8"]);
  return parsePrometheus(body);
};
const stored = async (app: TestApp, key = app.keyA) => {
  await store(app.ctx);
  return scrape(app, key);
};
const requests = (route: string, status: string, method = "GET") => ({ route, method, status });

test("requests are counted by route template, method and class of status", async () => {
  const app = open();
  for (let i = 0; i < 3; i++) await app.call("GET", `/v1/datasets/ds_${i}`);
  await app.call("GET", "/v1/datasets?limit=1");
  await app.call("POST", "/v1/datasets", { name: "d", format: "prompt" });
  await app.call("POST", "/v1/datasets", { nonsense: true });
  const { body } = await app.call("POST", "/v1/volumes", { name: "vol" });
  await app.call("PUT", `/v1/volumes/${body.name}/files/a/b.txt`, undefined, { raw: "x" });
  const seen = await stored(app);
  const count = (labels: object) =>
    numberIn(seen, "verk_http_requests_total", { workspace: app.workspaceA, ...labels });
  expect(count(requests("/v1/datasets/{id}", "4xx"))).toBe(3);
  expect(count(requests("/v1/datasets", "2xx"))).toBe(1);
  expect(count(requests("/v1/datasets", "2xx", "POST"))).toBe(1);
  expect(count(requests("/v1/datasets", "4xx", "POST"))).toBe(1);
  expect(count(requests("/v1/volumes/{name}/files/{path}", "2xx", "PUT"))).toBe(1);
  const took = { route: "/v1/datasets/{id}", method: "GET" };
  expect(numberIn(seen, "verk_http_request_duration_seconds_count", took)).toBe(3);
  expect(numberIn(seen, "verk_http_request_duration_seconds_bucket", { ...took, le: "+Inf" })).toBe(3);
  expect(numberIn(seen, "verk_http_request_duration_seconds_sum", took)).toBeGreaterThan(0);
});

test("requests that overlap are each counted for their own workspace and route", async () => {
  const app = open();
  const calls = Array.from({ length: 60 }, (_, i) => {
    const key = i % 2 ? app.keyA : app.keyB;
    if (i % 3 === 0) return app.call("POST", "/v1/datasets", { name: `d${i}`, format: "prompt" }, { key });
    return i % 3 === 1
      ? app.call("GET", "/v1/gpu", undefined, { key }) // waits for a look at the devices
      : app.call("GET", `/v1/training_jobs/job_${i}`, undefined, { key });
  });
  await Promise.all(calls);
  const seen = await stored(app, app.adminKey);
  for (const workspace of [app.workspaceA, app.workspaceB]) {
    const count = (labels: object) => numberIn(seen, "verk_http_requests_total", { workspace, ...labels });
    expect(count(requests("/v1/datasets", "2xx", "POST"))).toBe(10);
    expect(count(requests("/v1/gpu", "2xx"))).toBe(10);
    expect(count(requests("/v1/training_jobs/{id}", "4xx"))).toBe(10);
  }
  expect(numberIn(seen, "verk_http_requests_total", { workspace: "", route: "/v1/gpu" })).toBeUndefined();
});

test("a key sees its own workspace; an admin key sees all, and the server", async () => {
  const app = open();
  for (const key of [app.keyA, app.keyB, null]) await app.call("GET", "/v1/datasets", undefined, { key } as never);
  await store(app.ctx);
  const labelled = (families: Awaited<ReturnType<typeof scrape>>) =>
    new Set([...families.values()].flatMap(({ series }) => series.flatMap(({ labels }) => labels["workspace"] ?? [])));
  const own = await scrape(app, app.keyB);
  expect([...labelled(own)]).toEqual([app.workspaceB]);
  expect(own.has("process_resident_memory_bytes")).toBe(false);
  const text = JSON.stringify([...own.values()]);
  expect(text).not.toContain(app.workspaceA);
  expect(text).not.toContain("alpha");
  const all = await scrape(app, app.adminKey);
  expect(labelled(all)).toContain(app.workspaceA);
  expect(labelled(all)).toContain(app.workspaceB);
  expect(numberIn(all, "verk_http_requests_total", { workspace: "", ...requests("/v1/datasets", "4xx") })).toBe(1);
  expect(numberIn(all, "process_resident_memory_bytes")).toBeGreaterThan(1e6);
});

test("a key with the scope metrics or read may look, and one of another area may not", async () => {
  const app = open();
  for (const scope of ["metrics", "read", "*", "admin"] as const)
    expect((await app.call("GET", "/v1/metrics", undefined, app.keyOf("beta", [scope]))).status).toBe(200);
  for (const scope of ["training", "inference", "detect"] as const)
    expect((await app.call("GET", "/v1/metrics", undefined, app.keyOf("beta", [scope]))).status).toBe(403);
  const narrow = app.keyOf("beta", ["metrics"]);
  expect((await app.call("GET", "/v1/datasets", undefined, narrow)).status).toBe(403);
});

test("whatever strangers invent, the number of series stays the same", async () => {
  const app = open();
  const series = async () => (await stored(app, app.adminKey)).get("verk_http_requests_total")?.series.length;
  const strange = async (i: number) => {
    await app.call("GET", `/x${i}/${"y".repeat(i)}`, undefined, { key: null });
    await app.call("GET", `/v1/training_jobs/${i}`, undefined, { key: `vk_${i}` });
    await app.handle(new Request(`http://localhost/v1/datasets/${i}`, { method: `M${i}` }));
    await app.handle(new Request(`http://localhost/%ff${i}`));
  };
  await strange(0);
  await series(); // counts the scrape itself from here on
  const before = await series();
  for (let i = 1; i < 50; i++) await strange(i);
  expect(await series()).toBe(before as number);
  const seen = await stored(app, app.adminKey);
  expect(numberIn(seen, "verk_http_requests_total", { ...requests("none", "4xx") })).toBeGreaterThan(50);
  expect(numberIn(seen, "verk_http_requests_total", requests("/v1/training_jobs/{id}", "4xx"))).toBe(50);
});

test("a counter goes on after a restart", async () => {
  const app = open();
  for (let i = 0; i < 5; i++) await app.call("GET", "/v1/volumes");
  const before = await stored(app);
  await app.close();
  const again = open({ dir: app.dir });
  const { key } = again.keyOf("alpha", ["*"]);
  const name = "verk_http_requests_total";
  const after = await scrape(again, key);
  expect(numberIn(after, name, requests("/v1/volumes", "2xx"))).toBe(5);
  const took = (seen: typeof before) =>
    seen.get("verk_http_request_duration_seconds")?.series.filter(({ labels }) => labels["route"] === "/v1/volumes");
  expect(took(after)).toEqual(took(before) as never);
  expect(took(after)).not.toEqual([]);
  await again.call("GET", "/v1/volumes", undefined, { key });
  expect(numberIn(await stored(again, key), name, requests("/v1/volumes", "2xx"))).toBe(6);
});

test("what is not on the disk is not shown, so no counter falls wherever the server is killed", async () => {
  const label = requests("/v1/volumes", "2xx");
  const count = async (app: TestApp, key: string) =>
    numberIn(await scrape(app, key), "verk_http_requests_total", label) ?? 0;
  const crashes = await atEveryFailpoint(async (attempt) => {
    const app = open();
    await app.call("GET", "/v1/volumes");
    await store(app.ctx);
    await app.call("GET", "/v1/volumes");
    expect(await count(app, app.keyA)).toBe(1);
    await attempt(() => store(app.ctx));
    const shown = await count(app, app.keyA);
    await durable(app.ctx.db).catch(() => {}); // a flush that failed leaves the database broken, as a full disk does
    await app.close();
    const again = open({ dir: app.dir });
    expect(await count(again, again.keyOf("alpha", ["*"]).key)).toBeGreaterThanOrEqual(shown);
    await closeAll();
  });
  expect(crashes).toBeGreaterThan(1);
}, 120_000);

test("a store that finds nothing new writes nothing", async () => {
  const app = open();
  await app.call("GET", "/v1/volumes");
  await store(app.ctx);
  const changes = () => app.ctx.db.$client.query("SELECT total_changes() AS n").get();
  const before = changes();
  await store(app.ctx);
  expect(changes()).toEqual(before);
});

test("the series of a deleted workspace are gone, also from the disk", async () => {
  const app = open();
  await app.call("GET", "/v1/volumes", undefined, { key: app.keyB });
  await store(app.ctx);
  const rows = () => app.ctx.db.$client.query("SELECT * FROM counters WHERE workspace_id = ?").all(app.workspaceB);
  expect(rows().length).toBeGreaterThan(0);
  await app.call("DELETE", `/v1/workspaces/${app.workspaceB}`, undefined, { key: app.adminKey });
  const seen = await stored(app, app.adminKey);
  expect(rows()).toEqual([]);
  expect(JSON.stringify([...seen.values()])).not.toContain(app.workspaceB);
});

test("a name with quotes, backslashes and anything else is read as it was given", async () => {
  const app = open();
  const name = 'a"b\\c},{x="1"} 7 é';
  workspaces.update(app.ctx, app.workspaceA, { name });
  const info = (await scrape(app)).get("verk_workspace_info");
  expect(info?.series.map(({ labels }) => labels)).toEqual([{ workspace: app.workspaceA, name }]);
});

test("the loop stores by itself", async () => {
  const app = open({ loops: ["metrics.store"] });
  await app.call("GET", "/v1/volumes");
  await until("the count", async () =>
    numberIn(await scrape(app), "verk_http_requests_total", requests("/v1/volumes", "2xx")),
  );
});

test("every counter is in the documentation", async () => {
  const document = await Bun.file(new URL("../../../../docs/metrics.md", import.meta.url)).text();
  open(); // with all that count
  const names = allFamilies().flatMap(({ name }) => (name.startsWith("verk_") ? [name] : [])); // tests have their own
  expect(names.length).toBeGreaterThan(8);
  expect(names.filter((name) => !document.includes(`\`${name}\``))).toEqual([]);
});

test("what a workspace keeps is shown to it, and the free space of the disk to the operator", async () => {
  const app = open();
  await app.call("POST", "/v1/volumes", { name: "lab" });
  await app.call("PUT", "/v1/volumes/lab/files/a", undefined, { raw: "12345" });
  const volumes = { workspace: app.workspaceA, kind: "volumes" };
  expect(numberIn(await scrape(app), "verk_storage_bytes", volumes)).toBe(5);
  expect((await scrape(app)).has("verk_disk_free_bytes")).toBe(false);
  const all = await scrape(app, app.adminKey);
  expect(numberIn(all, "verk_storage_bytes", volumes)).toBe(5);
  expect(numberIn(all, "verk_disk_free_bytes", {})).toBeGreaterThan(0);
  for (const file of ["main", "log"]) expect(numberIn(all, "verk_database_bytes", { file })).toBeGreaterThan(0);
  expect([all.has("verk_backup_timestamp_seconds"), (await scrape(app)).has("verk_database_bytes")]).toEqual([
    false,
    false,
  ]);
  app.ctx.state.backup.lastAt = 5_000;
  app.ctx.state.backup.loggedAt = 6_000;
  expect(numberIn(await scrape(app, app.adminKey), "verk_backup_log_timestamp_seconds", {})).toBe(6);
  expect(numberIn(await scrape(app, app.adminKey), "verk_backup_timestamp_seconds", {})).toBe(5);
});
