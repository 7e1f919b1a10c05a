import { type TestApp, until } from "../harness.ts";
import type { Step } from "./journey.ts";
import { readyModel } from "./journey_models.ts";

const ROWS = '{"prompt":"a"}\n';
const LISTING = `<?xml version="1.0"?><ListBucketResult><Name>open</Name><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated>
<Contents><Key>rows.jsonl</Key><Size>${ROWS.length}</Size><ETag>"e"</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>`;

/** Simulates three buckets: a public one, one that requires credentials, one that never answers. */
const fakeBucket = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  idleTimeout: 0,
  fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname.startsWith("/silent")) return new Promise<Response>(() => {});
    if (!pathname.startsWith("/open")) return new Response("<Error><Code>AccessDenied</Code></Error>", { status: 403 });
    const listing = pathname === "/open" || pathname === "/open/";
    const headers = { etag: '"e"', "content-type": listing ? "application/xml" : "text/plain" };
    return new Response(listing ? LISTING : ROWS, { headers });
  },
});
fakeBucket.unref();
const sourceOf = (bucket: string) => ({
  source_type: "s3",
  source_uri: `s3://${bucket}/rows.jsonl?endpoint=http://127.0.0.1:${fakeBucket.port}`,
});

const stream = async (app: TestApp) => {
  const { body } = await app.call("POST", "/v1/datasets", { name: "journey", format: "prompt" });
  await app.call("POST", `/v1/datasets/${body.id}/rows`, { rows: [{ prompt: "a" }] });
  return { id: body.id as string };
};
const empty = async (app: TestApp) => ({
  id: (await app.call("POST", "/v1/datasets", { name: "journey", format: "prompt" })).body.id as string,
});
const snapshot = async (app: TestApp) => {
  const { id } = await stream(app);
  await app.call("POST", `/v1/datasets/${id}/snapshots`);
  return { id, snapshot: "@snap-1", other: "@snap-1" };
};
const connected = async (app: TestApp, bucket = "silent") => {
  const { createConnected } = await import("../../src/resources/data/datasets/service.ts");
  const { parse } = (await import("../../src/lib/source.ts")).Source;
  const given = { name: "journey", metadata: {}, source: parse(sourceOf(bucket)) };
  return { id: createConnected(app.ctx, app.workspaceA, given).id };
};
const reading = async (app: TestApp) => {
  const { id } = await connected(app);
  const { body } = await app.call("POST", `/v1/datasets/${id}/resolutions`, { credentials: {} });
  return { id, resolution: body.id as string };
};
const cancelled = async (app: TestApp) => {
  const names = await reading(app);
  await app.call("POST", `/v1/datasets/${names.id}/resolutions/${names.resolution}/cancel`);
  return names;
};

export const DATASETS: Step[] = [
  { operation: "POST /v1/datasets", json: { name: "journey", format: "prompt" } },
  { operation: "GET /v1/datasets" },
  { operation: "POST /v1/datasets/connect", json: { name: "journey", ...sourceOf("locked") } },
  { operation: "POST /v1/datasets/connect/validate", json: sourceOf("open") },
  { operation: "GET /v1/datasets/{id}", own: stream },
  { operation: "PATCH /v1/datasets/{id}", own: stream, json: { name: "renamed" } },
  { operation: "DELETE /v1/datasets/{id}", own: stream },
  { operation: "POST /v1/datasets/{id}/rows", own: empty, json: { rows: [{ prompt: "a" }] } },
  { operation: "GET /v1/datasets/{id}/rows", own: stream },
  { operation: "GET /v1/datasets/{id}/statistics", own: stream },
  { operation: "GET /v1/datasets/{id}/rows/export", own: stream, bytes: true },
  {
    operation: "POST /v1/datasets/{id}/preview",
    own: stream,
    make: async (app) => ({ model: (await readyModel(app)).id }),
  },
  { operation: "POST /v1/datasets/{id}/snapshots", own: stream, json: { note: "n" } },
  { operation: "GET /v1/datasets/{id}/snapshots", own: snapshot },
  { operation: "GET /v1/datasets/{id}/snapshots/{snapshot}", own: snapshot },
  { operation: "GET /v1/datasets/{id}/snapshots/{snapshot}/diff/{other}", own: snapshot },
  { operation: "POST /v1/datasets/{id}/resolutions", own: (app) => connected(app), json: { credentials: {} } },
  { operation: "GET /v1/datasets/{id}/resolutions", own: (app) => connected(app) },
  { operation: "GET /v1/datasets/{id}/resolutions/{resolution}", own: cancelled },
  { operation: "POST /v1/datasets/{id}/resolutions/{resolution}/cancel", own: reading },
];

/** Readings that end by themselves, for better and worse, and one that takes long enough to tell of it. */
export async function readSources(app: TestApp) {
  const { begin } = await import("../../src/resources/data/datasets/connected/resolve.ts");
  const { reporter } = await import("../../src/resources/data/datasets/connected/run.ts");
  const { current } = await import("../../src/resources/data/datasets/service.ts");
  for (const bucket of ["open", "locked"]) {
    const { id } = await connected(app, bucket);
    const row = begin(app.ctx, current(app.ctx, id) as never, { credentials: {} });
    await until("the reading to end", async () => {
      const { body } = await app.call("GET", `/v1/datasets/${id}/resolutions/${row.id}`);
      return body.finished_at !== null;
    });
  }
  const { id } = await connected(app);
  const row = begin(app.ctx, current(app.ctx, id) as never, { credentials: {} });
  reporter(app.ctx, row.id, 0)({ rows: 1, bytes: 10, total_rows: 2 });
  await app.call("POST", `/v1/datasets/${id}/resolutions/${row.id}/cancel`);
}
