// tier: all (whole paths on the executable)
import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { numberIn, parsePrometheus } from "../prometheus.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const LABELS = { route: "/v1/volumes", method: "GET", status: "2xx" };

test("counters continue after a stop, and after a kill none is lower than an earlier reading", async () => {
  let server = await startBinary({ dir });
  const { key } = await makeKey(dir, "--scope", "admin");
  const headers = { authorization: `Bearer ${key}` };
  const ask = (path: string) => fetch(server.url + path, { headers });
  const scrape = async () => parsePrometheus(await (await ask("/v1/metrics")).text());
  const count = async () => numberIn(await scrape(), "verk_http_requests_total", LABELS) ?? 0;
  for (let i = 0; i < 5; i++) await ask("/v1/volumes");
  await until("the requests to be shown", async () => (await count()) === 5);
  for (let i = 0; i < 5; i++) await ask("/v1/volumes");
  const { code } = await server.kill("SIGTERM"); // at once: the stop stores what was counted
  expect(code).toBe(0);
  server = await startBinary({ dir });
  expect(await count()).toBe(10);
  let last = 10;
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < 20; i++) {
      await ask("/v1/volumes");
      const now = await count();
      expect(now).toBeGreaterThanOrEqual(last);
      last = now;
    }
    await server.kill("SIGKILL");
    server = await startBinary({ dir });
    expect(await count()).toBeGreaterThanOrEqual(last);
  }
  await server.kill("SIGTERM");
}, 120_000);
