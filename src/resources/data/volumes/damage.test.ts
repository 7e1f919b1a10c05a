import { afterEach, expect, test } from "bun:test";
import { truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { manyApps, type TestApp } from "../../../../test/harness.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const BYTES = 100_000;
const content = new Uint8Array(BYTES).fill(65);
const put = (app: TestApp, path: string) =>
  app.call("PUT", `/v1/volumes/lab/files/${path}`, undefined, { raw: content });
const get = (app: TestApp, path: string, headers: Record<string, string> = {}) =>
  app.call("GET", `/v1/volumes/lab/files/${path}`, undefined, { headers });
async function withFile() {
  const app = open();
  await app.call("POST", "/v1/volumes", { name: "lab" });
  const { sha256 } = (await put(app, "r.bin")).body;
  return { app, object: join(app.dir, "storage/objects", sha256.slice(0, 2), sha256.slice(2)) };
}

test("D4 truncated object: a file that lost bytes on the disk is 503, whole and in ranges, and is logged", async () => {
  const { app, object } = await withFile();
  truncateSync(object, BYTES / 2);
  for (const headers of [{}, { range: "bytes=0-9" }]) {
    const { status, body } = await get(app, "r.bin", headers);
    expect({ status, code: body.error.code }).toEqual({ status: 503, code: "storage_unavailable" });
    expect(body.error.message).toContain("a stored file is damaged. Upload it again, or restore it from a backup");
  }
  expect(app.log.some((line) => line.includes("stored content is damaged"))).toBe(true);
});

test("D5 healing put: sending the bytes again under another path repairs every file with them", async () => {
  const { app, object } = await withFile();
  writeFileSync(object, new Uint8Array(BYTES));
  expect((await get(app, "r.bin")).status).toBe(503);
  expect((await put(app, "copy.bin")).status).toBe(201);
  for (const path of ["r.bin", "copy.bin"])
    expect(await get(app, path)).toMatchObject({ status: 200, body: "A".repeat(BYTES) });
});
