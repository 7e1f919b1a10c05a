/** A bucket as the place of backups. The SDK is large, so only commands that use a bucket load this file. */
import { GetObjectCommand, HeadObjectCommand } from "@aws-sdk/client-s3";
import { UsageError } from "../../lib/errors.ts";
import type { Config } from "../config/config.ts";
import { readCaFile } from "../network/http_client.ts";
import { openBucket } from "../storage/s3/bucket.ts";
import { type BackupTarget, tooLong } from "./target.ts";

const ADDRESS = /^s3:\/\/([^/]+)\/?(.*?)\/?$/;

/** `address`: `s3://bucket/folder`. */
export function openBucketTarget(address: string, { backup, storage, network }: Config): BackupTarget {
  const [, name = "", folder = ""] = ADDRESS.exec(address) ?? [];
  if (name === "") throw new UsageError(`Expected s3://BUCKET/FOLDER, not ${JSON.stringify(address)}`);
  const { s3_endpoint, s3_region, s3_path_style, s3_access_key_id, s3_secret_access_key } = backup;
  const access = { s3_endpoint, s3_region, s3_path_style, s3_access_key_id, s3_secret_access_key };
  const settings = { ...storage, ...access, s3_bucket: name, s3_prefix: folder === "" ? "" : `${folder}/` };
  const bucket = openBucket(settings, { ca: readCaFile(network.ca_file), section: "backup" });
  return {
    name: address,
    async head(object) {
      const head = await bucket.orMissing("read", () => bucket.client.send(new HeadObjectCommand(bucket.at(object))));
      return head && { bytes: head.ContentLength ?? 0, updatedAt: head.LastModified?.getTime() ?? 0 };
    },
    read: (object, mostBytes) =>
      bucket.orMissing("read", async () => {
        const { Body } = await bucket.client.send(new GetObjectCommand(bucket.at(object)));
        if (!Body) return new Uint8Array();
        const parts: Uint8Array[] = [];
        let bytes = 0;
        for await (const part of Body.transformToWebStream() as ReadableStream<Uint8Array>) {
          bytes += part.byteLength;
          if (bytes > mostBytes) throw tooLong(`${address}/${object}`, mostBytes);
          parts.push(part);
        }
        return new Uint8Array(Buffer.concat(parts));
      }),
    write: async (object, content) => void (await bucket.put(object, content)),
    remove: async (object) => void (await bucket.remove(object)),
    list: (folder) => bucket.list(`${folder}/`),
  };
}
