import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestApp, tempDir, testApp } from "../../../test/harness.ts";
import { uploads } from "../../resources/data/uploads/table.ts";
import { type Client, createClient } from "../client.ts";
import { SILENT } from "../progress.ts";
import { createMeter } from "../transfer/meter.ts";
import { download, upload } from "./move.ts";
import { planDownload } from "./plan.ts";

const dir = tempDir();
let app: TestApp;
let server: Bun.Server<undefined>;
let client: Client;
/** Answers instead of the server, where it says something. */
let instead: (request: Request) => Response | undefined = () => undefined;

beforeAll(async () => {
  app = testApp();
  server = Bun.serve({ port: 0, fetch: (request) => instead(request) ?? app.handle(request) });
  client = createClient({ url: server.url.origin, key: app.keyA });
  await client.call("POST", "/v1/volumes", { name: "lab" });
});
afterAll(async () => {
  await server.stop(true);
  await app.close();
  app.remove();
  rmSync(dir, { recursive: true, force: true });
});

const bytes = (length: number) => crypto.getRandomValues(new Uint8Array(length));
const file = (name: string, content: Uint8Array) => {
  const from = join(dir, name);
  writeFileSync(from, content);
  return { from, to: name, size: content.byteLength };
};
const moving = (more: { wholeBytes?: number } = {}) => ({
  client,
  volume: "lab",
  meter: createMeter(SILENT, "", undefined),
  signal: new AbortController().signal,
  ...more,
});
const back = async (name: string) => {
  const to = join(dir, `${name}.back`);
  await download(moving(), { from: name, to, size: 0 });
  return new Uint8Array(readFileSync(to));
};

test("a file goes in and comes back, also an empty one", async () => {
  for (const [name, content] of [["some.txt", bytes(3_000_000)] as const, ["empty", bytes(0)] as const]) {
    const way = moving();
    expect(await upload(way, file(name, content))).toBe(true);
    expect([way.meter.bytes, await back(name)]).toEqual([content.byteLength, content]);
  }
});

test("a large file goes in parts; one that is lost on the way is sent again, and counted once", async () => {
  const content = bytes(50_001);
  const seen: string[] = [];
  let lost = 0;
  instead = ({ method, url }) => {
    const part = /\/parts\/(\d+)/.exec(url)?.[1];
    if (method !== "PUT" || part === undefined) return undefined;
    seen.push(part);
    return part === "3" && lost++ === 0 ? new Response("lost", { status: 503 }) : undefined;
  };
  const way = moving({ wholeBytes: 1000 });
  await upload(way, file("parts.bin", content));
  instead = () => undefined;
  expect(seen.join()).toBe("1,2,3,3,4,5,6,7,8,9,10,11,12,13,14,15,16");
  expect([way.meter.bytes, await back("parts.bin")]).toEqual([content.byteLength, content]);
});

test("a whole file that is lost on the way gets a new address, because one takes a file once", async () => {
  const content = bytes(200_000);
  const addresses: string[] = [];
  instead = ({ method, url }) => {
    if (method !== "PUT") return undefined;
    addresses.push(url);
    return addresses.length === 1 ? new Response("lost", { status: 502 }) : undefined;
  };
  const way = moving();
  await upload(way, file("again.bin", content));
  instead = () => undefined;
  expect([addresses.length, new Set(addresses).size, way.meter.bytes]).toEqual([2, 2, content.byteLength]);
  expect(await back("again.bin")).toEqual(content);
});

test("a file that changes while it is sent is refused, and what was asked for it is called off", async () => {
  const copy = file("moving.bin", bytes(1000));
  instead = ({ url }) => {
    if (url.includes("/upload-url")) writeFileSync(copy.from, bytes(1000)); // after it was hashed
    return undefined;
  };
  await expect(upload(moving(), copy)).rejects.toMatchObject({ code: "sha256_mismatch" });
  instead = () => undefined;
  const open = app.ctx.db.select().from(uploads).all();
  expect(open.filter(({ path, status }) => path === "moving.bin" && status !== "aborted")).toEqual([]);
});

test("no error tells a signed address", async () => {
  instead = ({ method }) => (method === "PUT" ? new Response("no", { status: 403 }) : undefined);
  const error = await upload(moving(), file("secret.bin", bytes(10))).catch((thrown: Error) => thrown);
  instead = () => undefined;
  expect(String(error)).toContain("403");
  expect(String(error)).not.toContain("signature");
});

test("content that is not what the server announced is not written", async () => {
  await upload(moving(), file("true.bin", bytes(1000)));
  const to = join(dir, "false.bin");
  instead = ({ url }) => (url.includes("/signed/") ? new Response("something else") : undefined);
  const error = await download(moving(), { from: "true.bin", to, size: 0 }).catch((thrown: Error) => thrown);
  instead = () => undefined;
  expect([String(error).includes("was not written"), await Bun.file(to).exists()]).toEqual([true, false]);
});

test("a path that leads out of the folder is rejected", async () => {
  const item = { path: "x/../../../outside", size_bytes: 1 };
  instead = () => Response.json({ object: "list", data: [item], has_more: false });
  await expect(planDownload(client, { volume: "lab", path: "x" }, dir, true)).rejects.toThrow("which is outside of");
  instead = () => undefined;
});
