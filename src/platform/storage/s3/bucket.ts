import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import { SERVING_BYTES } from "../../../lib/json/outside.ts";
import type { Config } from "../../config/config.ts";
import { asBucketError, isMissing } from "./errors.ts";
import { type FetchOptions, fetchHandler } from "./fetch.ts";

export type S3Settings = Config["storage"];
export type Listed = { name: string; bytes: number; updatedAt: number };
export type Bucket = ReturnType<typeof openBucket>;

/** One bucket below our prefix, and the few requests that are more than one line. Every failure is a BucketError. */
export function openBucket(settings: S3Settings, bucketOptions: FetchOptions & { section?: string } = {}) {
  const { section = "storage", ...options } = bucketOptions; // the settings that messages name
  const { s3_bucket: name, s3_prefix: prefix, s3_endpoint: endpoint } = settings;
  const place = `${endpoint || "s3:/"}/${name}`;
  const client = new S3Client({
    region: settings.s3_region,
    ...(endpoint === "" ? {} : { endpoint }),
    forcePathStyle: settings.s3_path_style,
    ...credentialsOf(settings),
    // Others than Amazon's know no checksums in trailers. What we send is signed with its hash in any case.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    requestHandler: fetchHandler(options),
    expectContinueHeader: false,
  });
  const at = (object: string) => ({ Bucket: name, Key: prefix + object });

  async function call<T>(doing: string, request: () => Promise<T>): Promise<T> {
    try {
      return await request();
    } catch (error) {
      throw asBucketError(place, doing, error, section);
    }
  }

  /** Undefined where there is no such object. */
  async function orMissing<T>(doing: string, request: () => Promise<T>): Promise<T | undefined> {
    return call(doing, () => request().catch((error) => (isMissing(error) ? undefined : Promise.reject(error))));
  }

  const put = (object: string, body: Uint8Array | string) =>
    call("write to", () => client.send(new PutObjectCommand({ ...at(object), Body: body })));

  const remove = (object: string) => call("delete from", () => client.send(new DeleteObjectCommand(at(object))));

  async function readText(object: string): Promise<{ text: string; updatedAt: number } | undefined> {
    return orMissing("read", async () => {
      const { Body, LastModified, ContentLength = 0 } = await client.send(new GetObjectCommand(at(object)));
      if (ContentLength > SERVING_BYTES) {
        await Body?.transformToWebStream().cancel();
        return { text: "", updatedAt: 0 }; // nothing that we wrote
      }
      return { text: (await Body?.transformToString()) ?? "", updatedAt: LastModified?.getTime() ?? 0 };
    });
  }

  /** In byte order; `after` and the names are without `folder`. */
  async function* list(folder: string, { prefix: below = "", after = "", page = 1000 } = {}): AsyncGenerator<Listed> {
    const from = prefix + folder;
    for (let token: string | undefined, first = true; first || token !== undefined; first = false) {
      const start =
        token === undefined ? (after === "" ? {} : { StartAfter: from + after }) : { ContinuationToken: token };
      const listing = await call("list", () =>
        client.send(
          new ListObjectsV2Command({
            Bucket: name,
            Prefix: from + below,
            MaxKeys: page,
            EncodingType: "url", // XML cannot hold every character
            ...start,
          }),
        ),
      );
      for (const each of listing.Contents ?? []) {
        const object = decodeURIComponent((each.Key ?? "").replaceAll("+", " ")).slice(from.length);
        yield { name: object, bytes: each.Size ?? 0, updatedAt: each.LastModified?.getTime() ?? 0 };
      }
      token = listing.IsTruncated ? listing.NextContinuationToken : undefined;
    }
  }

  /** All uploads in parts of one object. Some servers list them by the whole name only. */
  async function abortUploads(object: string) {
    const { Key } = at(object);
    const listing = await call("list", () =>
      client.send(new ListMultipartUploadsCommand({ Bucket: name, Prefix: Key })),
    );
    for (const { Key: key, UploadId } of listing.Uploads ?? [])
      if (key === Key)
        await orMissing("delete from", () => client.send(new AbortMultipartUploadCommand({ ...at(object), UploadId })));
  }

  return { name, place, client, at, call, orMissing, put, remove, readText, list, abortUploads };
}

function credentialsOf({ s3_access_key_id: accessKeyId, s3_secret_access_key: secretAccessKey }: S3Settings) {
  if (accessKeyId !== "") return { credentials: { accessKeyId, secretAccessKey } };
  // The SDK would look for credentials in the environment and in the cloud around us: only the settings count.
  const signer = { sign: async <T>(request: T) => request };
  return { signer, credentials: { accessKeyId: "none", secretAccessKey: "none" } };
}
