import { describe, expect, test } from "bun:test";
import type { Credentials } from "../../src/lib/source.ts";
import type { Dialer } from "../../src/workers/connector/dialer.ts";
import { open } from "../../src/workers/connector/s3.ts";
import { faultOf } from "./formats_kit.ts";
import { calm, expectSilence, openSource, readRows } from "./objects_kit.ts";

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
