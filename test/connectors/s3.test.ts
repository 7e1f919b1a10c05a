// tier: all (real databases and stores)
import { describe, expect, test } from "bun:test";
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

describe("s3", () => {
  const source = (source_uri: string) => ({ source_type: "s3" as const, source_uri });
  const opening = (uri: string, credentials: Credentials = {}) =>
    faultOf(Promise.resolve().then(() => openSource({ open, source: source(uri), credentials })));

  test.each([
    ["s3:///x.jsonl", {}, "/source_uri", "source_uri must look like s3://bucket/path"],
    ["s3://b?regoin=x", {}, "/source_uri", "an unknown option: regoin. Use endpoint, region, path_style"],
    ["s3://b/x?endpoint=minio:9000", {}, "/source_uri", "endpoint must be an http(s) address"],
    ["s3://b/x?region=EU%20West", {}, "/source_uri", "region must look like eu-central-1"],
    ["s3://b/x?path_style=yes", {}, "/source_uri", "path_style must be true or false"],
    ["s3://b/a/../x", {}, "/source_uri", "a path part . or .."],
    [
      "s3://b/x",
      { access_key_id: "MARKED" },
      "/credentials/secret_access_key",
      "credentials.secret_access_key is missing",
    ],
    ["s3://b/x", { access_key_id: 5 }, "/credentials/access_key_id", "credentials.access_key_id must be a string"],
  ])("%s %j is refused before any connection", async (uri, credentials, param, message) => {
    const fault = await opening(uri, credentials as Credentials);
    expect([fault.code, fault.param]).toEqual(["invalid_source", param]);
    expect(fault.message).toContain(message);
    expectSilence(fault, ["MARKED"]);
  });

  /** Answers of Amazon that MinIO does not give. */
  function fakeAmazon(answer: (request: Request, count: number) => Response) {
    const requests: Headers[] = [];
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: (request) => answer(request, requests.push(new Headers([...request.headers])) - 1),
    });
    const uri = (path: string) => `s3://bucket/${path}?endpoint=http://127.0.0.1:${server.port}`;
    return { requests, uri, [Symbol.dispose]: () => void server.stop(true) };
  }

  test("Amazon is addressed by the name of the bucket, over TLS; other stores by path", async () => {
    const requests: string[] = [];
    const dialer: Dialer = {
      ca: undefined,
      resolve: () => Promise.reject(new Error("not this way")),
      fetch: async (url, { headers }) => {
        requests.push(`${url} ${/Credential=[^/]*\/\d+\/([^,]*)/.exec(headers?.["authorization"] ?? "")?.[1]}`);
        return { status: 404, headers: new Headers(), stream: new Blob([]).stream(), address: "" };
      },
    };
    const limits = { connectMs: 1, statementMs: 1, rowBytes: 1000 };
    const credentials = { access_key_id: "k", secret_access_key: "s" };
    for (const uri of [
      "s3://my.bucket/x",
      "s3://bucket/x?region=eu-central-1",
      "s3://bucket/x?region=cn-north-1",
      "s3://bucket/x?endpoint=https://minio.lab:9000/",
    ])
      await faultOf(open({ source: source(uri), credentials, dialer, limits, hubEndpoint: "" }).test(calm()));
    expect(requests.filter((_, i) => i % 2 === 0)).toEqual([
      "https://s3.us-east-1.amazonaws.com/my.bucket/x us-east-1/s3/aws4_request",
      "https://bucket.s3.eu-central-1.amazonaws.com/x eu-central-1/s3/aws4_request",
      "https://bucket.s3.cn-north-1.amazonaws.com.cn/x cn-north-1/s3/aws4_request",
      "https://minio.lab:9000/bucket/x us-east-1/s3/aws4_request",
    ]);
  });

  test("another region is named", async () => {
    using amazon = fakeAmazon(
      () => new Response(null, { status: 301, headers: { "x-amz-bucket-region": "eu-west-3" } }),
    );
    const fault = await faultOf(
      openSource({ open, source: source(amazon.uri("x.jsonl")), credentials: {} }).test(calm()),
    );
    expect([fault.code, fault.message]).toEqual([
      "invalid_source",
      "The bucket of s3://bucket/x.jsonl is in the region eu-west-3, not us-east-1: add ?region=eu-west-3",
    ]);
  });

  test("a request that the store asks to delay is retried, and fails after the limit", async () => {
    const body = '{"a":1}\n';
    const busy = () => new Response("<Error><Code>SlowDown</Code></Error>", { status: 503 });
    const whole = (request: Request) =>
      request.method === "HEAD"
        ? new Response(null, { headers: { etag: '"1"', "content-length": `${body.length}` } })
        : new Response(body, {
            status: 206,
            headers: { "content-range": `bytes 0-${body.length - 1}/${body.length}` },
          });
    using some = fakeAmazon((request, count) => (count % 3 < 2 ? busy() : whole(request)));
    expect(await readRows(openSource({ open, source: source(some.uri("x.jsonl")), credentials: {} }))).toEqual([
      '{"a":1}',
    ]);
    using never = fakeAmazon(busy);
    const fault = await faultOf(
      openSource({ open, source: source(never.uri("x.jsonl")), credentials: {} }).test(calm()),
    );
    expect([fault.code, never.requests.length]).toEqual(["unreachable", 5]);
  });

  test("the environment has no effect: no key and no endpoint is read, and requests name no SDK", async () => {
    const before = { ...process.env };
    using amazon = fakeAmazon(() => new Response(null, { status: 404 }));
    Object.assign(process.env, {
      AWS_ACCESS_KEY_ID: "MARKED",
      AWS_SECRET_ACCESS_KEY: "MARKED",
      AWS_ENDPOINT_URL: "http://127.0.0.1:1",
      AWS_REGION: "mars-1",
    });
    try {
      await faultOf(openSource({ open, source: source(amazon.uri("x.jsonl")), credentials: {} }).test(calm()));
    } finally {
      for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
    }
    expect(amazon.requests.length).toBeGreaterThan(0);
    for (const headers of amazon.requests) {
      expect(headers.get("authorization")).toBe(null);
      expect(headers.get("user-agent")).toBe("Verk");
      expect([...headers.values()].join(" ")).not.toMatch(/aws-sdk|bun|MARKED/i);
    }
  });
});
