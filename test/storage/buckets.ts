import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import type { S3Settings } from "../../src/platform/storage/s3/bucket.ts";
import type { S3Server } from "../servers/servers.ts";

export const settingsFor = (server: S3Server, bucket: string, prefix = "some/prefix/"): S3Settings => ({
  kind: "s3",
  min_free_bytes: 0,
  s3_endpoint: server.url,
  s3_region: server.region,
  s3_bucket: bucket,
  s3_prefix: prefix,
  s3_path_style: true,
  s3_access_key_id: server.accessKeyId,
  s3_secret_access_key: server.secretAccessKey,
});

export const clientFor = (server: S3Server) =>
  new S3Client({
    endpoint: server.url,
    region: server.region,
    forcePathStyle: true,
    credentials: server,
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
  });

/** Server → the bucket that all tests of this process share. */
const shared = new Map<string, Promise<string>>();

async function createBucket(server: S3Server): Promise<string> {
  const bucket = `test-${crypto.randomUUID()}`;
  await clientFor(server).send(new CreateBucketCommand({ Bucket: bucket }));
  return bucket;
}

/** An empty prefix of its own: a bucket for each test would cost more than most tests do. */
export async function freshPrefix(server: S3Server): Promise<S3Settings> {
  const bucket = shared.getOrInsertComputed(server.url, () => createBucket(server));
  return settingsFor(server, await bucket, `some/${crypto.randomUUID().slice(0, 6)}/`);
}
