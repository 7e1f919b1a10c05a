// tier: all (backups and stores of objects)
import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { GetObjectCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import { DamagedError } from "../../src/platform/storage/damage.ts";
import { openLocalStorage } from "../../src/platform/storage/local.ts";
import type { S3Settings } from "../../src/platform/storage/s3/bucket.ts";
import { openS3Storage } from "../../src/platform/storage/s3.ts";
import { describeWith, minio, type S3Server } from "../servers/servers.ts";
import { clientFor, freshPrefix, settingsFor } from "./buckets.ts";
import { type Change, type Damageable, damageConformance } from "./damage.ts";
import { memoryS3 } from "./memory_s3.ts";

const roots: string[] = [];
const memory = memoryS3();
afterAll(() => {
  memory.stop();
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
});

function openLocal() {
  const root = mkdtempSync(join(tmpdir(), "verk-damage-"));
  roots.push(root);
  const damages: DamagedError[] = [];
  const storage = openLocalStorage(root, { onDamage: (error) => damages.push(error) });
  const objectOf = async (key: string) => {
    const { sha256 } = (await storage.head(key))!;
    return join(root, "objects", sha256.slice(0, 2), sha256.slice(2));
  };
  const damage = async (key: string, change: Change) => {
    const path = await objectOf(key);
    writeFileSync(path, change(readFileSync(path)));
  };
  return { root, storage, damages, damage, objectOf };
}

function openBucket(server: S3Server, settings: S3Settings): Damageable {
  const damages: DamagedError[] = [];
  const storage = openS3Storage(settings, { onDamage: (error) => damages.push(error) });
  const client = clientFor(server);
  const at = (name: string) => ({ Bucket: settings.s3_bucket, Key: `${settings.s3_prefix}${name}` });
  const get = async (name: string) => (await client.send(new GetObjectCommand(at(name)))).Body!.transformToByteArray();
  const damage = async (key: string, change: Change) => {
    const { object } = JSON.parse(new TextDecoder().decode(await get(`refs/${key}!0`)));
    const Body = change(await get(`objects/${object}`));
    await client.send(new PutObjectCommand({ ...at(`objects/${object}`), Body }));
  };
  return { storage, damages, damage };
}

damageConformance("local", async () => openLocal());
const fake: S3Server = { url: memory.url, region: "us-east-1", accessKeyId: "a", secretAccessKey: "s3cret" };
damageConformance("s3", async () => openBucket(fake, settingsFor(fake, "bucket", `${crypto.randomUUID()}/`)));
describeWith("minio", minio, (server) => {
  damageConformance("minio", async () => openBucket(server, await freshPrefix(server)));
});

test("D4 background verification: damaged content is moved away and refused, also after a restart", async () => {
  const { root, storage, damage, damages, objectOf } = openLocal();
  const content = new Uint8Array(2 << 20).fill(7);
  await storage.put("k", content);
  await storage.put("other", new Uint8Array(10));
  expect(await storage.verify!(() => true)).toEqual({ objects: 2, bytes: content.length + 10, damaged: 0 });
  const path = await objectOf("k");
  const firstByte = Number.parseInt((await storage.head("k"))!.sha256.slice(0, 2), 16);
  await damage("k", (bytes) => bytes.fill(0));
  expect(await storage.verify!((byte) => byte !== firstByte)).toMatchObject({ damaged: 0 });
  expect(await storage.verify!((byte) => byte === firstByte)).toMatchObject({ objects: 1, damaged: 1 });
  expect(damages).toHaveLength(1);
  expect(existsSync(path)).toBe(false);
  expect(readdirSync(join(root, "damaged"))).toHaveLength(1);
  for (const each of [storage, openLocalStorage(root)])
    await expect(each.get("k", { offset: 1, length: 1 })).rejects.toBeInstanceOf(DamagedError);
  await storage.put("k", content);
  expect(readdirSync(join(root, "damaged"))).toEqual([]);
});

test("D4 background verification: a sweep removes damaged content that no key names", async () => {
  const { root, storage, damage } = openLocal();
  await storage.put("k", new Uint8Array(10));
  await damage("k", (bytes) => bytes.fill(1));
  await storage.verify!(() => true);
  await storage.sweep(0);
  expect(readdirSync(join(root, "damaged"))).toHaveLength(1);
  await storage.delete("k");
  await storage.sweep(0);
  expect(readdirSync(join(root, "damaged"))).toEqual([]);
});
