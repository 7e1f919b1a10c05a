// tier: all (real databases and stores)
import { expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { CreateBucketCommand, PutBucketPolicyCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import type { Credentials } from "../../src/lib/source.ts";
import type { Dialer } from "../../src/workers/connector/dialer.ts";
import { open } from "../../src/workers/connector/s3.ts";
import { tar } from "../archives.ts";
import { describeWith, minio } from "../servers/servers.ts";
import { sampleOf } from "../sweep.ts";
import { faultOf } from "./formats_kit.ts";
import { objectStoreTests } from "./object_store_suite.ts";
import {
  calm,
  expectFlat,
  expectSilence,
  LARGE_ROWS,
  largeFile,
  largeTexts,
  openSource,
  readLarge,
  readRows,
} from "./objects_kit.ts";
import { rowsAsParquet } from "./parquet_writer.ts";

const bucket = `verk-rows-${crypto.randomUUID()}`; // all test files share one server, and one may run again
const EXTRACT = { "snowball-auto-extract": "true" }; // MinIO unpacks the archive into objects

function largeContent(name: string): string | Uint8Array {
  if (name === "rows.csv") return `text\n${largeTexts().join("\n")}`;
  if (name === "rows.jsonl.gz") return gzipSync(largeFile());
  return rowsAsParquet(largeTexts(), { groupRows: LARGE_ROWS / 10, pageRows: LARGE_ROWS / 200 });
}

describeWith("s3, against MinIO", minio, (server) => {
  const { url, region, accessKeyId, secretAccessKey } = server;
  const admin = new S3Client({
    endpoint: url,
    region,
    forcePathStyle: true,
    credentials: { accessKeyId, secretAccessKey },
    requestChecksumCalculation: "WHEN_REQUIRED",
  });
  const created = admin.send(new CreateBucketCommand({ Bucket: bucket }));
  const put = async (key: string, content: string | Uint8Array) => {
    await created;
    await writer.write(key, content as string);
  };
  const writer = new Bun.S3Client({ endpoint: url, accessKeyId, secretAccessKey, bucket });
  const port = Number(new URL(url).port);
  const uriOf = (path: string, through = port) => `s3://${bucket}/${path}?endpoint=http://127.0.0.1:${through}`;
  const credentials = { access_key_id: accessKeyId, secret_access_key: secretAccessKey };
  const at = (source_uri: string, given: Credentials = credentials) =>
    openSource({ open, source: { source_type: "s3", source_uri }, credentials: given });

  objectStoreTests({
    type: "s3",
    open,
    put,
    putAll: async (objects) => {
      await created;
      const Body = tar(...objects.map((each) => ({ ...each, mtime: 1 }))); // MinIO rejects objects without a time
      await admin.send(new PutObjectCommand({ Bucket: bucket, Key: "all.tar", Body, Metadata: EXTRACT }));
    },
    hasSmallPages: true,
    uri: uriOf,
    nowhere: `s3://no-such-bucket/x.jsonl?endpoint=${url}`,
    port,
    credentials,
    wrong: { access_key_id: accessKeyId, secret_access_key: "MARKED-wrong-secret" },
    secrets: [secretAccessKey],
  });

  test.each(sampleOf("large objects of s3", ["rows.parquet", "rows.csv", "rows.jsonl.gz"], 1 / 3))(
    `${LARGE_ROWS} rows of %s in flat memory`,
    async (name) => {
      await put(`large_${name}`, largeContent(name));
      const source = { source_type: "s3" as const, source_uri: uriOf(`large_${name}`) };
      expectFlat(await readLarge({ source, credentials }));
    },
    60_000,
  );

  test("more than one page of objects is read, with pages of two", async () => {
    const Bucket = `verk-pages-${crypto.randomUUID()}`;
    await admin.send(new CreateBucketCommand({ Bucket }));
    const Action = ["s3:GetObject", "s3:ListBucket"];
    const Resource = [`arn:aws:s3:::${Bucket}`, `arn:aws:s3:::${Bucket}/*`];
    const Policy = JSON.stringify({
      Version: "2012-10-17",
      Statement: [{ Effect: "Allow", Principal: "*", Action, Resource }],
    });
    await admin.send(new PutBucketPolicyCommand({ Bucket, Policy }));
    const pages = new Bun.S3Client({ endpoint: url, accessKeyId, secretAccessKey, bucket: Bucket });
    for (const name of ["0.jsonl", "_1", "_2", "_3", "a.jsonl", "b.jsonl"])
      await pages.write(`pages/${name}`, `{"name":"${name}"}\n`);
    let lists = 0;
    /** Unsigned requests may be altered on their way. */
    const ofTwo = (dialer: Dialer): Dialer => ({
      ...dialer,
      fetch: (to, outgoing) => {
        if (!`${to}`.includes("list-type=2")) return dialer.fetch(to, outgoing);
        lists++;
        return dialer.fetch(`${to}&max-keys=2`.replace(/max-keys=(?!2$)\d+&/, ""), outgoing);
      },
    });
    const source = { source_type: "s3" as const, source_uri: `s3://${Bucket}/pages/?endpoint=${url}` };
    const connector = openSource({ open, source, credentials: {} }, { through: ofTwo });
    expect((await readRows(connector)).map((row) => JSON.parse(row).name)).toEqual(["0.jsonl", "a.jsonl", "b.jsonl"]);
    expect(lists).toBeGreaterThan(2);
  });

  test("an unknown access key is refused", async () => {
    const fault = await faultOf(
      at(uriOf("x/"), { access_key_id: "MARKED-key", secret_access_key: "MARKED-secret" }).test(calm()),
    );
    expect(fault.code).toBe("unauthorized");
    expect(fault.message).toContain("InvalidAccessKeyId");
    expectSilence(fault, ["MARKED-secret", "MARKED-key"]);
  });

  test("without credentials requests are unsigned, so only public objects are read", async () => {
    await created;
    await writer.write("public/rows.jsonl", '{"a":1}\n');
    await writer.write("private/rows.jsonl", '{"a":1}\n');
    const statement = {
      Effect: "Allow",
      Principal: "*",
      Action: "s3:GetObject",
      Resource: `arn:aws:s3:::${bucket}/public/*`,
    };
    const Policy = JSON.stringify({ Version: "2012-10-17", Statement: [statement] });
    await admin.send(new PutBucketPolicyCommand({ Bucket: bucket, Policy }));
    expect(await readRows(at(uriOf("public/rows.jsonl"), {}))).toEqual(['{"a":1}']);
    expect((await faultOf(at(uriOf("private/rows.jsonl"), {}).test(calm()))).code).toBe("unauthorized");
  });
});
