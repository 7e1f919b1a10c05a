import { expect, test } from "bun:test";
import { failpoints } from "../../src/platform/failpoint.ts";
import { ContentError, sha256Bytes } from "../../src/platform/files.ts";
import { openS3Storage, type S3Options } from "../../src/platform/storage/s3.ts";
import type { Presign, Storage } from "../../src/platform/storage/storage.ts";
import { Crash } from "../harness.ts";
import { describeWith, nativeMinio, type S3Server } from "../servers/servers.ts";
import { freshPrefix } from "./buckets.ts";

const MIB = 1 << 20;
const hello = { expiresSeconds: 60, bytes: 5, sha256: sha256Bytes("hello"), contentType: "text/plain" };
const textOf = async (storage: Storage, key: string) => new Response((await storage.get(key))!.stream).text();
const send = (to: { url: string; headers?: Record<string, string> }, body: BodyInit, headers = to.headers ?? {}) =>
  fetch(to.url, { method: "PUT", body, headers });

async function open(server: S3Server, options?: S3Options): Promise<{ storage: Storage; presign: Presign }> {
  const storage = openS3Storage(await freshPrefix(server), options);
  return { storage, presign: storage.presign! };
}

describeWith("minio", nativeMinio, (server) => {
  test("content at a presigned address has a key after adopt, and not before", async () => {
    const { storage, presign } = await open(server);
    const to = await presign.put(hello);
    expect(await presign.adopt(to.staging, "k")).toBeUndefined();
    expect((await send(to, "hello")).status).toBe(200);
    expect(await storage.list("")).toEqual({ items: [], next: undefined });
    const written = await presign.adopt(to.staging, "k", { maxBytes: 5, expectedSha256: hello.sha256 });
    expect(written).toEqual({ bytes: 5, sha256: hello.sha256 });
    expect(await textOf(storage, "k")).toBe("hello");
  });

  test.each([
    ["another size", "hello!", undefined],
    ["another content", "hullo", undefined],
    ["another type", "hello", { "content-type": "text/html" }],
    ["no checksum", "hello", { "x-amz-checksum-sha256": "" }],
  ])("the server itself refuses %s than was signed", async (_name, body, changed) => {
    const { presign } = await open(server);
    const to = await presign.put(hello);
    const headers = Object.fromEntries(
      Object.entries({ ...to.headers, ...changed }).filter(([, value]) => value !== ""),
    );
    expect((await send(to, body, headers)).status).toBeGreaterThanOrEqual(400);
    expect(await presign.adopt(to.staging, "k")).toBeUndefined();
  });

  test("a size alone is signed too", async () => {
    const { presign } = await open(server);
    const to = await presign.put({ expiresSeconds: 60, bytes: 5 });
    expect((await send(to, "hello!")).status).toBe(403);
    expect((await send(to, "hello")).status).toBe(200);
  });

  test("content that the client declares as compressed is kept and returned as sent", async () => {
    const { storage, presign } = await open(server);
    const zipped = Bun.gzipSync("hello");
    const to = await presign.put({ expiresSeconds: 60 });
    expect((await send(to, zipped, { "content-encoding": "gzip" })).status).toBe(200);
    expect(await presign.adopt(to.staging, "k")).toEqual({ bytes: zipped.length, sha256: sha256Bytes(zipped) });
    expect(Buffer.from(await new Response((await storage.get("k"))!.stream).arrayBuffer())).toEqual(
      Buffer.from(zipped),
    );
  });

  test("a client that writes again during adopt gets the content that adopt read last, and its hash", async () => {
    const { storage, presign } = await open(server);
    const to = await presign.put({ expiresSeconds: 60 });
    await send(to, "hello");
    failpoints.hit = (name) => {
      if (name !== "storage.before_copy") return;
      delete failpoints.hit;
      const again = `await fetch(${JSON.stringify(to.url)}, { method: "PUT", body: "other!" })`;
      Bun.spawnSync([process.execPath, "-e", again]);
    };
    expect(await presign.adopt(to.staging, "k")).toEqual({ bytes: 6, sha256: sha256Bytes("other!") });
    expect(await textOf(storage, "k")).toBe("other!");
  });

  test("an expired or changed address accepts nothing", async () => {
    const { presign } = await open(server);
    const to = await presign.put({ expiresSeconds: 60 });
    const late = to.url.replace(/X-Amz-Date=(\d{4})/, (_all, year) => `X-Amz-Date=${Number(year) - 1}`);
    expect((await send({ url: late }, "hello")).status).toBe(403);
    expect((await send({ url: to.url.replace("staging/", "refs/") }, "hello")).status).toBe(403);
  });

  test("a second use of an address does not change adopted content", async () => {
    const { storage, presign } = await open(server);
    const to = await presign.put({ expiresSeconds: 60 });
    await send(to, "hello");
    await presign.adopt(to.staging, "k");
    expect((await send(to, "other")).status).toBe(200);
    expect(await textOf(storage, "k")).toBe("hello");
    await storage.sweep(0);
    expect(await textOf(storage, "k")).toBe("hello");
  });

  test("without an announced hash adopt reads the content, and refuses content that does not match", async () => {
    const { storage, presign } = await open(server);
    for (const options of [{ maxBytes: 4 }, { expectedSha256: "0".repeat(64) }]) {
      const to = await presign.put({ expiresSeconds: 60 });
      await send(to, "hello");
      await expect(presign.adopt(to.staging, "k", options)).rejects.toThrow(ContentError);
      expect(await presign.adopt(to.staging, "k")).toBeUndefined(); // it was thrown away
    }
    const to = await presign.put({ expiresSeconds: 60 });
    await send(to, "hello");
    expect(await presign.adopt(to.staging, "k")).toEqual({ bytes: 5, sha256: hello.sha256 });
    expect((await storage.list("")).items).toHaveLength(1);
  });

  test("parts arrive in any order and form one file, which exists only after the last part", async () => {
    const { storage, presign } = await open(server);
    const { staging, urls } = await presign.parts({ expiresSeconds: 60, count: 3 });
    const parts = [new Uint8Array(5 * MIB).fill(1), new Uint8Array(6 * MIB).fill(2), new Uint8Array(3).fill(3)];
    for (const i of [2, 0]) expect((await send({ url: urls[i]! }, parts[i]!)).status).toBe(200);
    expect(await presign.adopt(staging, "k")).toBeUndefined();
    await send({ url: urls[1]! }, parts[1]!);
    const whole = Buffer.concat(parts);
    const written = await presign.adopt(staging, "k", { expectedSha256: sha256Bytes(whole) });
    expect(written).toEqual({ bytes: whole.length, sha256: sha256Bytes(whole) });
    expect((await send({ url: urls[0]! }, parts[0]!)).status).toBe(404); // the upload is over
    await storage.sweep(0);
    expect(Buffer.from(await new Response((await storage.get("k"))!.stream).arrayBuffer()).equals(whole)).toBeTrue();
  });

  test("parts that are too large together, or too small each, form no file", async () => {
    const { storage, presign } = await open(server);
    const large = await presign.parts({ expiresSeconds: 60, count: 1 });
    await send({ url: large.urls[0]! }, new Uint8Array(MIB));
    await expect(presign.adopt(large.staging, "k", { maxBytes: MIB - 1 })).rejects.toThrow(ContentError);
    expect(await presign.adopt(large.staging, "k")).toBeUndefined();
    const small = await presign.parts({ expiresSeconds: 60, count: 2 });
    for (const url of small.urls) await send({ url }, "tiny");
    expect(await presign.adopt(small.staging, "k")).toBeUndefined();
    expect(await storage.get("k")).toBeUndefined();
  });

  test.each(["storage.before_name", "storage.after_name"])(
    "a crash at %s of adopt is repaired by the next adopt",
    async (at) => {
      for (const count of [undefined, 2]) {
        const { storage, presign } = await open(server);
        const to = count === undefined ? await presign.put(hello) : await presign.parts({ expiresSeconds: 60, count });
        if ("url" in to) await send(to, "hello");
        else for (const url of to.urls) await send({ url }, new Uint8Array(5 * MIB));
        failpoints.hit = (name) => {
          if (name === at) throw new Crash(name);
        };
        await expect(presign.adopt(to.staging, "k")).rejects.toThrow(Crash);
        delete failpoints.hit;
        const written = await presign.adopt(to.staging, "k");
        expect(written).toMatchObject({ bytes: count === undefined ? 5 : 10 * MIB });
        expect(await presign.adopt(to.staging, "k")).toEqual(written!);
        await storage.sweep(0);
        expect(await storage.head("k")).toMatchObject(written!);
      }
    },
  );

  test("a download address gives the content as a file, until the key is deleted", async () => {
    const { storage, presign } = await open(server);
    await storage.put("k", new TextEncoder().encode("hello"));
    const from = await presign.get("k", { expiresSeconds: 60, filename: 'a "ü".txt', contentType: "text/plain" });
    const answer = await fetch(from!.url, { headers: { range: "bytes=1-2" } });
    expect(await answer.text()).toBe("el");
    expect(answer.headers.get("content-type")).toBe("text/plain");
    expect(answer.headers.get("content-disposition")).toBe(
      `attachment; filename="a ___.txt"; filename*=UTF-8''a%20%22%C3%BC%22.txt`,
    );
    expect(await presign.get("none", { expiresSeconds: 60 })).toBeUndefined();
  });

  test("content that was not adopted is swept once its address has expired", async () => {
    let now = Date.now();
    const { storage, presign } = await open(server, { now: () => now });
    const put = await presign.put({ expiresSeconds: 60 });
    await send(put, "hello");
    const parts = await presign.parts({ expiresSeconds: 60, count: 2 });
    await send({ url: parts.urls[0]! }, new Uint8Array(5 * MIB));
    await storage.sweep(1000);
    expect((await send({ url: parts.urls[1]! }, "end")).status).toBe(200); // still there
    now += 62_000;
    expect(await storage.sweep(1000)).toEqual({ objects: 1, bytes: 5 });
    expect((await send({ url: parts.urls[1]! }, "end")).status).toBe(404);
    expect(await presign.adopt(put.staging, "k")).toBeUndefined();
    expect(await presign.adopt(parts.staging, "k")).toBeUndefined();
    await presign.discard(put.staging); // no error
    await presign.discard(parts.staging);
  });
});
