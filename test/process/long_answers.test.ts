// tier: all (whole paths on the executable)
/** In the executable, the thread that parses long answers is an entry point of its own. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { tempDir, until } from "../harness.ts";

const dir = join(tempDir(), "data");
mkdirSync(dir);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test("a list of a hub over 256 KiB is read by the executable", async () => {
  const file = { rfilename: "README.md", size: 10, note: "x".repeat(100) };
  const siblings = Array.from({ length: 5_000 }, () => file);
  const hub = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => Response.json({ siblings }) });
  const env = { VERK_HUB__ENDPOINT: hub.url.origin, VERK_NETWORK__ALLOW: "127.0.0.1" };
  const server = await startBinary({ dir, env });
  try {
    const made = await server.call("POST", "/v1/models/pull", { name: "a/b" });
    expect(made.status).toBe(202);
    const model = await until("the end of the download", async () => {
      const { body } = await server.call("GET", `/v1/models/${made.body.id}`);
      return body.status === "failed" ? body : undefined;
    });
    expect(JSON.stringify(model)).toContain("has no GGUF file");
  } finally {
    await server.kill("SIGTERM");
    await hub.stop(true);
  }
}, 120_000);
