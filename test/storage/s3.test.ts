// tier: all (backups and stores of objects)
import { describe, expect, test } from "bun:test";
import { ListMultipartUploadsCommand, ListObjectsV2Command } from "@aws-sdk/client-s3";
import { examine } from "../../src/cli/doctor/check.ts";
import { storageChecks } from "../../src/cli/doctor/storage.ts";
import { UsageError } from "../../src/lib/errors.ts";
import { loadConfig } from "../../src/platform/config/config.ts";
import { ContentError, StorageError } from "../../src/platform/files.ts";
import { openStorage } from "../../src/platform/storage/open.ts";
import type { S3Settings } from "../../src/platform/storage/s3/bucket.ts";
import { partBytes } from "../../src/platform/storage/s3/upload.ts";
import { openS3Storage } from "../../src/platform/storage/s3.ts";
import type { Storage } from "../../src/platform/storage/storage.ts";
import { tempDir } from "../harness.ts";
import { cuttingProxy } from "../servers/proxy.ts";
import { describeWith, minio, type S3Server } from "../servers/servers.ts";
import { sweep } from "../sweep.ts";
import { clientFor, freshPrefix, settingsFor } from "./buckets.ts";
import { storageConformance } from "./conformance.ts";

const MIB = 1 << 20;
const UPLOAD_MIB = sweep({ quick: 120, full: 200 }); // either is more than the memory that is allowed
const bytes = (text: string) => new TextEncoder().encode(text);
const textOf = async (storage: Storage, key: string) => new Response((await storage.get(key))!.stream).text();
const inADay = () => Date.now() + 86_400_000;

async function namesIn(server: S3Server, { s3_bucket: Bucket, s3_prefix: Prefix }: S3Settings): Promise<string[]> {
  const { Contents = [] } = await clientFor(server).send(new ListObjectsV2Command({ Bucket, Prefix }));
  return Contents.map(({ Key = "" }) => Key.replace(Prefix, "").replace(/[0-9a-f]{32}/, "…"));
}

/** Uploads in parts; MinIO lists them by the whole name only, which the marker tells. */
const known = new Map<string, string[]>();
async function uploadsIn(server: S3Server, { s3_bucket: Bucket, s3_prefix }: S3Settings): Promise<number> {
  const client = clientFor(server);
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket, Prefix: `${s3_prefix}uploads/` }));
  const names = Contents.map(({ Key = "" }) => Key.replace("/uploads/", "/objects/"));
  known.set(s3_prefix, [...(known.get(s3_prefix) ?? []), ...names]);
  const all = [...new Set(known.get(s3_prefix))];
  const found = await Promise.all(
    all.map((Prefix) => client.send(new ListMultipartUploadsCommand({ Bucket, Prefix }))),
  );
  return found.flatMap(({ Uploads = [] }) => Uploads).length;
}

describeWith("minio", minio, (server) => {
  // MinIO keeps a folder for each part of a key, and each is costly where the server is emulated.
  const deepest = sweep({ quick: 8, full: 449 });
  storageConformance("s3", async () => openS3Storage(await freshPrefix(server)), { deepest, lists: 1 / 3 });

  test("a file is one object and one name; nothing else is left, whether it came in parts or not", async () => {
    const settings = await freshPrefix(server);
    const storage = openS3Storage(settings);
    await storage.put("a b/c", bytes("small"));
    await storage.put("big", new Uint8Array(20 * MIB));
    await storage.put("even", new Uint8Array(8 * MIB));
    const names = ["objects/…", "objects/…", "objects/…", "refs/a!1b/c!0", "refs/big!0", "refs/even!0"];
    expect(await namesIn(server, settings)).toEqual(names);
    expect(await storage.head("even")).toMatchObject({ bytes: 8 * MIB });
  });

  test("a sweep with no grace removes exactly the content that no key names", async () => {
    const settings = await freshPrefix(server);
    const storage = openS3Storage(settings);
    await storage.put("kept", bytes("one"));
    await storage.put("gone", bytes("three"));
    await storage.delete("gone");
    expect(await storage.sweep(0)).toEqual({ objects: 1, bytes: 5 });
    expect(await namesIn(server, settings)).toEqual(["objects/…", "refs/kept!0"]);
  });

  test("a body that breaks in its second part leaves no part behind", async () => {
    const settings = await freshPrefix(server);
    const storage = openS3Storage(settings);
    const body = (async function* () {
      for (let i = 0; i < 12; i++) yield new Uint8Array(MIB);
      throw new Error("gone");
    })();
    await expect(storage.put("k", body)).rejects.toThrow("gone");
    await expect(storage.put("k", new Uint8Array(12 * MIB), { expectedSha256: "0".repeat(64) })).rejects.toThrow(
      ContentError,
    );
    expect(await namesIn(server, settings)).toEqual([]);
  });

  test("the source of a body that is too large is closed", async () => {
    const storage = openS3Storage(await freshPrefix(server));
    let closed = false;
    const body = (async function* () {
      try {
        for (;;) yield new Uint8Array(MIB);
      } finally {
        closed = true;
      }
    })();
    await expect(storage.put("k", body, { maxBytes: 12 * MIB })).rejects.toThrow("larger than");
    expect(closed).toBeTrue();
  });

  test.each([
    ["storage.before_name:1", "old"],
    ["storage.after_name:1", "new"],
  ])("killed at %s, the key is the %s content, and a sweep finds the rest", async (failpoint, expected) => {
    const settings = await freshPrefix(server);
    await openS3Storage(settings).put("k", bytes("old"));
    expect(await putInChild(settings, failpoint, 'new TextEncoder().encode("new")')).toBe("SIGKILL");
    const storage = openS3Storage(settings, { now: inADay });
    expect(await textOf(storage, "k")).toBe(expected);
    await storage.sweep(0);
    expect(await textOf(storage, "k")).toBe(expected);
    expect(await namesIn(server, settings)).toEqual(["objects/…", "refs/k!0"]);
  });

  test("after a kill in the middle of an upload in parts, the key is absent and a sweep frees the parts", async () => {
    const settings = await freshPrefix(server);
    // Three parts are under way at most: when the sixth is asked for, some have arrived.
    const body = `(async function* () {
      for (let i = 0; i < 48; i++) yield new Uint8Array(1 << 20);
      process.kill(process.pid, "SIGKILL");
    })()`;
    expect(await putInChild(settings, "none:1", body)).toBe("SIGKILL");
    expect(await uploadsIn(server, settings)).toBe(1);
    const storage = openS3Storage(settings, { now: inADay });
    expect(await storage.get("k")).toBeUndefined();
    await openS3Storage(settings).sweep(3_600_000);
    expect(await uploadsIn(server, settings)).toBe(1); // young: it may be at work
    await storage.sweep(3_600_000);
    expect(await uploadsIn(server, settings)).toBe(0);
    expect(await namesIn(server, settings)).toEqual([]);
  });

  test("a connection that is cut in the middle of a read is an error of the storage, not a short file", async () => {
    const settings = await freshPrefix(server);
    await openS3Storage(settings).put("k", new Uint8Array(20 * MIB));
    using proxy = cuttingProxy(Number(new URL(server.url).port));
    const storage = openS3Storage({ ...settings, s3_endpoint: `http://127.0.0.1:${proxy.port}` });
    const opened = await storage.get("k");
    proxy.cutAfter(5 * MIB);
    const read = await new Response(opened!.stream).arrayBuffer().catch((error) => error);
    expect(read).toBeInstanceOf(StorageError);
    expect(read.message).toContain("cannot be reached");
  });

  test("a reader that leaves closes its connection, and a sweep may remove its content", async () => {
    const settings = await freshPrefix(server);
    const storage = openS3Storage(settings);
    await storage.put("k", new Uint8Array(20 * MIB));
    const opened = await storage.get("k");
    await storage.delete("k");
    expect((await storage.sweep(0)).objects).toBe(0);
    await opened!.stream.cancel();
    expect((await storage.sweep(0)).objects).toBe(1);
  });

  test.each([
    ["a wrong secret", { s3_secret_access_key: "not the s3cret" }, "refuses the credentials"],
    ["an unknown key", { s3_access_key_id: "nobody" }, "refuses the credentials"],
    ["no credentials", { s3_access_key_id: "", s3_secret_access_key: "" }, "may not do this"],
    ["a missing bucket", { s3_bucket: "no-such-bucket" }, "no such bucket. Make it, or correct storage.s3_bucket"],
    ["nobody there", { s3_endpoint: "http://127.0.0.1:9" }, "cannot be reached (ECONNREFUSED)"],
  ])("%s is reported clearly, without a secret", async (_name, wrong, says) => {
    const settings = { ...settingsFor(server, (await freshPrefix(server)).s3_bucket), ...wrong };
    const storage = openS3Storage(settings);
    for (const call of [
      () => storage.put("k", bytes("x")),
      () => storage.get("k"),
      () => storage.list(""),
      () => storage.delete("k"),
      () => storage.sweep(0),
    ]) {
      const error = await call().catch((error) => error);
      expect(error).toBeInstanceOf(StorageError);
      expect(error.message).toContain(says);
      expect(Bun.inspect(error)).not.toContain("s3cret");
      expect(error.advice).not.toContain("127.0.0.1");
    }
  });

  test("the doctor tries the bucket, and says what to do if it cannot be used", async () => {
    const settings = await freshPrefix(server);
    expect(await examined(settings)).toMatchObject({ status: "ok", detail: `bucket ${settings.s3_bucket}, writable` });
    expect((await openS3Storage(settings).list("")).items).toEqual([]);
    const wrong = { ...settings, s3_secret_access_key: "not the s3cret" };
    expect(await examined(wrong)).toMatchObject({
      status: "fail",
      fix: expect.stringContaining("s3_secret_access_key"),
    });
    expect(await examined({ ...settings, s3_bucket: "" })).toMatchObject({ status: "fail" });
  });

  test(`${UPLOAD_MIB} MiB go up with less than 100 MB of memory`, async () => {
    const script = `${prelude(await freshPrefix(server))}
      const before = process.memoryUsage().rss;
      let peak = 0;
      const watch = () => { peak = Math.max(peak, process.memoryUsage().rss); };
      const timer = setInterval(watch, 5);
      const piece = new Uint8Array(1 << 16).fill(7);
      const body = (async function* () { for (let i = 0; i < ${UPLOAD_MIB * 16}; i++) { watch(); yield piece; } })();
      const { bytes } = await storage.put("k", body);
      clearInterval(timer);
      console.log(JSON.stringify({ bytes, grown: peak - before }));`;
    const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
    const told = JSON.parse(await new Response(child.stdout).text());
    expect(told.bytes).toBe(UPLOAD_MIB * MIB);
    expect(told.grown).toBeLessThan(100e6);
  });
});

function examined(settings: S3Settings) {
  const flags = Object.fromEntries(Object.entries(settings).map(([name, value]) => [`storage.${name}`, value]));
  const config = loadConfig({ env: {}, flags: { data_dir: tempDir(), ...flags } });
  return examine(storageChecks.find(({ name }) => name === "file storage")!, { config, probeDir: config.data_dir });
}

const prelude = (settings: S3Settings) => `
  const at = (path) => import(${JSON.stringify(`${import.meta.dir}/../../src/platform/`)} + path);
  const storage = (await at("storage/s3.ts")).openS3Storage(${JSON.stringify(settings)});`;

/** How it ended. */
async function putInChild(settings: S3Settings, failpoint: string, body: string): Promise<unknown> {
  const script = `${prelude(settings)}
    (await at("failpoint.ts")).armFailpoint("${failpoint}");
    await storage.put("k", ${body});`;
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "inherit", stderr: "inherit" });
  await child.exited;
  return child.signalCode;
}

test("ten thousand parts make more than a terabyte, none of them too large to hold", () => {
  const total = Array.from({ length: 10_000 }, (_, i) => partBytes(i + 1)).reduce((sum, size) => sum + size, 0);
  expect(total).toBeGreaterThan(1e12);
  expect(partBytes(10_000)).toBeLessThanOrEqual(192 * MIB);
});

describe("settings", () => {
  const open = (flags: Record<string, unknown>) => () =>
    openStorage(loadConfig({ env: {}, flags: { data_dir: tempDir(), "storage.kind": "s3", ...flags } }));
  test.each([
    ["no bucket", {}, "storage.s3_bucket"],
    ["half of the credentials", { "storage.s3_bucket": "b", "storage.s3_access_key_id": "x" }, "belong together"],
    ["a prefix that climbs", { "storage.s3_bucket": "b", "storage.s3_prefix": "../x/" }, "storage.s3_prefix"],
    ["a long prefix", { "storage.s3_bucket": "b", "storage.s3_prefix": "x".repeat(101) }, "storage.s3_prefix"],
  ])("%s: refused with the setting's name", (_name, flags, says) => {
    expect(open(flags)).toThrow(UsageError);
    expect(open(flags)).toThrow(says);
  });

  test("a complete set opens without a connection, and local storage has no presigned addresses", () => {
    expect(open({ "storage.s3_bucket": "b", "storage.s3_endpoint": "http://192.0.2.1" })().presign).toBeDefined();
    expect(open({ "storage.kind": "local" })().presign).toBeUndefined();
  });
});
