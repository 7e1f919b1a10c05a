import { expect, test } from "bun:test";
import { asBucketError, BucketError, isMissing, isNamed, statusOf } from "./errors.ts";

const failure = (more: { name?: string; code?: unknown; message?: string; status?: number }) => {
  const { status, ...rest } = more;
  return { ...rest, ...(status === undefined ? {} : { $metadata: { httpStatusCode: status } }) };
};
const fixOf = (more: Parameters<typeof failure>[0], section?: string) =>
  asBucketError("s3://b", "read", failure(more), section).advice;

test("missing is 404, but not of the bucket", () => {
  expect([failure({ status: 404 }), failure({ status: 404, name: "NoSuchKey" })].map(isMissing)).toEqual([true, true]);
  const others = [failure({ status: 404, name: "NoSuchBucket" }), failure({ status: 403 }), failure({}), null];
  expect(others.map(isMissing)).toEqual([false, false, false, false]);
  expect([statusOf(failure({ status: 500 })), statusOf(null), statusOf(new Error("x"))]).toEqual([
    500,
    undefined,
    undefined,
  ]);
  expect([isNamed(failure({ name: "A" }), "A"), isNamed(failure({ name: "A" }), "B"), isNamed(null, "A")]).toEqual([
    true,
    false,
    false,
  ]);
});

test.each<[string, Parameters<typeof failure>[0], RegExp]>([
  ["a name wins over a status", { name: "NoSuchBucket", status: 404 }, /there is no such bucket.*storage\.s3_bucket/],
  [
    "wrong credentials",
    { name: "SignatureDoesNotMatch", status: 403 },
    /^the bucket's server refuses the credentials\. /,
  ],
  ["few rights", { name: "AccessDenied", status: 403 }, /^these credentials may not do this/],
  ["a refusal without a name", { status: 403 }, /refuses the credentials, or they may not/],
  ["a refusal of the key", { status: 401 }, /refuses the credentials, or they may not/],
  ["another region", { status: 301 }, /is in another region/],
  ["a full bucket", { name: "XMinioStorageFull", status: 507 }, /no space left/],
  ["a status and a name", { name: "Odd", status: 500 }, /^its server answered 500 Odd$/],
  ["a status alone", { status: 500 }, /^its server answered 500$/],
  ["a certificate", { code: "CERT_HAS_EXPIRED" }, /not trusted \(CERT_HAS_EXPIRED\).*network\.ca_file/],
  ["a server that is down", { code: "ECONNREFUSED" }, /cannot be reached \(ECONNREFUSED\)/],
  ["a timeout", { name: "TimeoutError" }, /cannot be reached \(TimeoutError\)/],
  ["nonsense", { name: "SyntaxError", message: "no XML", code: 5 }, /makes no sense \(SyntaxError: no XML\)$/],
  ["nothing at all", {}, /makes no sense \(Error: \)$/],
])("%s", (_, more, advice) => {
  expect(fixOf(more)).toMatch(advice);
});

test("the settings of backups have other names", () => {
  expect(fixOf({ name: "NoSuchBucket" }, "backup")).toEndWith("correct backup.target");
  expect(fixOf({ name: "InvalidAccessKeyId" }, "backup")).toContain("backup.s3_access_key_id");
  expect(fixOf({ name: "KeyTooLongError" })).toEndWith("Shorten storage.s3_prefix");
});

test("an error names the place and keeps its cause; it is explained once", () => {
  const cause = failure({ status: 301 });
  const error = asBucketError("s3://b", "read", cause);
  expect([error.name, error.cause]).toEqual(["BucketError", cause]);
  expect(error.message).toStartWith("Cannot read s3://b: the bucket is in another region");
  expect(asBucketError("elsewhere", "write", error)).toBe(error);
  expect(error).toBeInstanceOf(BucketError);
});
