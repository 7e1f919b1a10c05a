import { expect, test } from "bun:test";
import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import type { Credentials } from "../../src/lib/source.ts";
import { open } from "../../src/workers/connector/gs.ts";
import { describeWith, minio } from "../servers/servers.ts";
import { faultOf } from "./formats_kit.ts";
import { calm, expectSilence, openSource, readRows } from "./objects_kit.ts";

const at = (source_uri: string, credentials: Credentials) =>
  openSource({ open, source: { source_type: "gs", source_uri }, credentials });

describeWith("gs with HMAC keys, against MinIO", minio, ({ url, region, accessKeyId, secretAccessKey }) => {
  test("speaks S3's protocol", async () => {
    const login = { endpoint: url, accessKeyId, secretAccessKey };
    const admin = new S3Client({ endpoint: url, region, forcePathStyle: true, credentials: login });
    await admin.send(new CreateBucketCommand({ Bucket: "verk-hmac" }));
    await new Bun.S3Client({ ...login, bucket: "verk-hmac" }).write("a/rows.jsonl", '{"a":1}\n');
    const uri = `gs://verk-hmac/a/?endpoint=${url}`;
    const keys = { access_key_id: accessKeyId, secret_access_key: secretAccessKey };
    expect(await readRows(at(uri, keys))).toEqual(['{"a":1}']);
    const fault = await faultOf(at(uri, { ...keys, secret_access_key: "MARKED-wrong" }).test(calm()));
    expect([fault.code, fault.param]).toEqual(["unauthorized", "/credentials"]);
    expectSilence(fault, ["MARKED-wrong", secretAccessKey]);
  });
});
