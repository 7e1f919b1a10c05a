import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import type { S3Settings } from "../../src/platform/storage/s3_bucket.ts";
import type { S3Server } from "../servers/servers.ts";

export const settingsFor = (server: S3Server, bucket: string): S3Settings => ({
  kind: "s3",
  min_free_bytes: 0,
  s3_endpoint: server.url,
  s3_region: server.region,
  s3_bucket: bucket,
  s3_prefix: "some/prefix/",
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

/** An empty bucket of its own. */
export async function freshBucket(server: S3Server): Promise<S3Settings> {
  const bucket = `test-${crypto.randomUUID()}`;
  await clientFor(server).send(new CreateBucketCommand({ Bucket: bucket }));
  return settingsFor(server, bucket);
}
