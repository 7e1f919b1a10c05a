import { expect, test } from "bun:test";
import { StorageError } from "../../src/platform/files.ts";
import { openS3Storage } from "../../src/platform/storage/s3.ts";
import { cuttingProxy } from "../servers/proxy.ts";
import { describeWith, minio } from "../servers/servers.ts";
import { freshPrefix, settingsFor } from "./buckets.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const login = { region: "us-east-1", accessKeyId: "a", secretAccessKey: "s3cret" };

/** Fails as told, in S3's words, and after that takes everything. */
function fakeS3(failures: [status: number, code: string][]) {
  const requests: string[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      await request.arrayBuffer();
      requests.push(request.method);
      const [status, code] = failures.shift() ?? [200, ""];
      const text = status === 200 ? "" : `<Error><Code>${code}</Code><Message>so it is</Message></Error>`;
      return new Response(text, { status, headers: { "content-type": "application/xml", etag: '"x"' } });
    },
  });
  return { storage: openS3Storage(settingsFor({ url: server.url.origin, ...login }, "bucket")), requests, server };
}

test.each([500, 503])("a request that gets %d for a moment is retried", async (status) => {
  const fake = fakeS3([
    [status, "SlowDown"],
    [status, "InternalError"],
  ]);
  using _ = fake.server;
  await fake.storage.put("k", bytes("x"));
  expect(fake.requests).toHaveLength(4); // the content at the third try, and its name
});

test.each([
  ["no space", 507, "XMinioStorageFull", "no space left"],
  ["another region", 301, "PermanentRedirect", "storage.s3_region"],
  ["clocks that differ", 403, "RequestTimeTooSkewed", "clocks"],
  ["missing rights", 403, "AccessDenied", "may not do this"],
  ["something new", 418, "Teapot", "answered 418 Teapot"],
] as const)("%s is reported with a helpful message", async (_name, status, code, says) => {
  const fake = fakeS3(Array.from({ length: 5 }, () => [status, code]));
  using _ = fake.server;
  const error = await fake.storage.put("k", bytes("x")).catch((error) => error);
  expect(error).toBeInstanceOf(StorageError);
  expect(error.message).toContain(says);
  expect(error.advice).toContain(says);
});

test("a bucket with content of another program is refused, with the advice to use a prefix", async () => {
  const fake = fakeS3([]);
  using _ = fake.server;
  const error = await fake.storage.get("k").catch((error) => error);
  expect(error).toBeInstanceOf(StorageError);
  expect(error.message).toContain("a prefix of its own");
});

test.each([
  ["before it answers", () => new Promise<Response>(() => {})],
  ["in the middle", () => new Response(new ReadableStream({ start: (to) => to.enqueue(bytes("{")) }))],
])("a request to a server that falls silent %s fails", async (_name, answer) => {
  using server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: answer });
  const settings = settingsFor({ url: server.url.origin, ...login }, "bucket");
  const error = await openS3Storage(settings, { silenceMs: 30 })
    .head("k")
    .catch((error) => error);
  expect(error).toBeInstanceOf(StorageError);
  expect(error.message).toContain("cannot be reached");
});

describeWith("minio", minio, (server) => {
  test("a cut connection is opened again, and the put succeeds", async () => {
    const settings = await freshPrefix(server);
    using proxy = cuttingProxy(Number(new URL(server.url).port));
    const storage = openS3Storage({ ...settings, s3_endpoint: `http://127.0.0.1:${proxy.port}` });
    proxy.cutAfter(1);
    await storage.put("k", new Uint8Array(20 << 20));
    proxy.cut();
    expect(await storage.head("k")).toMatchObject({ bytes: 20 << 20 });
  });
});
