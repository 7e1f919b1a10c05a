import { expect, test } from "bun:test";
import { isSigned, readSignedQuery, type SignedUse, signedQuery } from "./signed_url.ts";

const KEY = new Uint8Array(32).fill(7);
const use: SignedUse = { method: "PUT", path: "/v1/volumes/vol_1/uploads/upl_1", sizeBytes: 3, sha256: null };
const grant = { keyId: "key_1", expiresAtSeconds: 1_800_000_000 };
const read = () => readSignedQuery(new URLSearchParams(signedQuery(KEY, use, grant)))!;

test("what was signed is recognised, and says until when and on whose behalf", () => {
  expect(read()).toMatchObject(grant);
  expect(isSigned(KEY, use, read())).toBe(true);
});

test.each([
  ["another method", { method: "GET" }, {}],
  ["another path", { path: "/v1/volumes/vol_1/uploads/upl_2" }, {}],
  ["another size", { sizeBytes: 4 }, {}],
  ["a size left out", { sizeBytes: null }, {}],
  ["another hash", { sha256: "0".repeat(64) }, {}],
  ["a later expiry", {}, { expiresAtSeconds: 1_800_000_001 }],
  ["another key's name", {}, { keyId: "key_2" }],
] as const)("%s does not pass", (_name, change, granted) => {
  expect(isSigned(KEY, { ...use, ...change }, { ...read(), ...granted })).toBe(false);
});

test("another secret, a cut or a lengthened signature does not pass", () => {
  expect(isSigned(new Uint8Array(32), use, read())).toBe(false);
  const { signature } = read();
  for (const wrong of ["", signature.slice(1), `${signature}A`, signature.toLowerCase(), "é".repeat(43)])
    expect(isSigned(KEY, use, { ...read(), signature: wrong })).toBe(false);
});

test.each([
  "",
  "key=key_1&expires=1800000000",
  "key=key_1&signature=x",
  "expires=1800000000&signature=x",
  "key=key_1&expires=01800000000&signature=x",
  "key=key_1&expires=1.8e9&signature=x",
  "key=key_1&expires=1800000000&signature=",
  "key=key_1&expires=1800000000&signature=x&signature=y",
  "key=key_1&key=key_2&expires=1&signature=x",
  "key=%0A&expires=1800000000&signature=x",
])("%p is no signed query", (query) => {
  expect(readSignedQuery(new URLSearchParams(query))).toBeUndefined();
});
