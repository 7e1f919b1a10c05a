import { afterEach, expect, test } from "bun:test";
import { fakeClock, manyApps } from "../../../../test/harness.ts";
import { addressOf, push } from "./push.ts";

const { open, closeAll } = manyApps();
const servers: ReturnType<typeof Bun.serve>[] = [];
afterEach(async () => {
  await closeAll();
  for (const server of servers.splice(0)) await server.stop(true);
});
const signal = new AbortController().signal;

function collector(status = 200) {
  const got: { path: string; headers: Headers; body: never }[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      got.push({
        path: new URL(request.url).pathname,
        headers: request.headers,
        body: (await request.json()) as never,
      });
      return new Response("{}", { status });
    },
  });
  servers.push(server);
  return { got, url: server.url.origin };
}

type Metric = { name: string; gauge?: Points; sum?: Points & { isMonotonic: boolean }; histogram?: Points };
type Points = { dataPoints: Record<string, unknown>[]; aggregationTemporality?: number };
const metricsIn = (body: never): Map<string, Metric> =>
  new Map(
    (body as { resourceMetrics: { scopeMetrics: { metrics: Metric[] }[] }[] }).resourceMetrics
      .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics))
      .map((metric) => [metric.name, metric]),
  );

test("all metrics reach a collector over OTLP, with headers, and again after the interval", async () => {
  const { got, url } = collector();
  const clock = fakeClock();
  const flags = {
    "network.allow": ["127.0.0.1"],
    "metrics.otlp_endpoint": url,
    "metrics.otlp_headers": "x-team=lab, a=b=c",
  };
  const app = open({ clock, flags });
  await app.call("POST", "/v1/volumes", { name: 'quote"d' });
  await app.call("POST", "/v1/volumes", { name: "lab" });
  await app.call("PUT", "/v1/volumes/lab/files/a", undefined, { raw: "12345" });
  await push(app.ctx, signal);
  expect(got).toHaveLength(1);
  const [first] = got as [(typeof got)[number]];
  expect([first.path, first.headers.get("content-type"), first.headers.get("x-team"), first.headers.get("a")]).toEqual([
    ...["/v1/metrics", "application/json", "lab", "b=c"],
  ]);
  const metrics = metricsIn(first.body);
  const stored = metrics.get("verk_storage_bytes")?.gauge?.dataPoints.find(({ asDouble }) => asDouble === 5);
  expect(stored).toMatchObject({
    timeUnixNano: `${clock.now()}000000`,
    attributes: [
      { key: "workspace", value: { stringValue: app.workspaceA } },
      { key: "kind", value: { stringValue: "volumes" } },
    ],
  });
  expect(metrics.get("verk_disk_free_bytes")?.gauge?.dataPoints).toHaveLength(1);
  await push(app.ctx, signal);
  expect(got).toHaveLength(1); // not yet
  clock.advance(60_000);
  await push(app.ctx, signal);
  expect(got).toHaveLength(2);
});

test("a refused address and an answer that is no success are errors of the loop", async () => {
  const { url, got } = collector(503);
  const allowed = open({ flags: { "network.allow": ["127.0.0.1"], "metrics.otlp_endpoint": url } });
  await expect(push(allowed.ctx, signal)).rejects.toThrow("answered 503");
  const guarded = open({ flags: { "metrics.otlp_endpoint": url } });
  await expect(push(guarded.ctx, signal)).rejects.toThrow();
  expect(got).toHaveLength(1); // the guard let nothing through
});

test("a collector's address gets the path of OTLP, and a full address stays", () => {
  expect(String(addressOf("http://c.lab:4318"))).toBe("http://c.lab:4318/v1/metrics");
  expect(String(addressOf("https://c.lab/otlp/v1/metrics"))).toBe("https://c.lab/otlp/v1/metrics");
});
