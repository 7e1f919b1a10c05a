import { createHmac, timingSafeEqual } from "node:crypto";

/**
 * An address that carries its own permission: whoever has it may do this one thing until it expires. The signature is
 * an HMAC-SHA256 over everything that must not be changed; what is not in the query the verifier knows from its row.
 * NOT covered: who uses it (it is a bearer of the right), and how often: a single use is the row's affair.
 */
export type SignedUse = {
  method: "GET" | "PUT";
  path: string;
  /** Of the content that may be sent; null = not said. */
  sizeBytes: number | null;
  sha256: string | null;
};
/** What stands in the query. `keyId`: on whose behalf; when that key stops working, so does the address. */
export type Grant = { keyId: string; expiresAtSeconds: number };

export function signedQuery(key: Uint8Array, use: SignedUse, grant: Grant): string {
  return `key=${grant.keyId}&expires=${grant.expiresAtSeconds}&signature=${signatureOf(key, use, grant)}`;
}

const KEY_ID = /^[a-z0-9_]{1,64}$/;
const EXPIRES = /^[1-9]\d{0,11}$/; // one spelling only

/** Undefined when the query cannot have come from signedQuery. */
export function readSignedQuery(query: URLSearchParams): (Grant & { signature: string }) | undefined {
  const only = (name: string) => {
    const [value, ...more] = query.getAll(name);
    return more.length === 0 ? (value ?? "") : "";
  };
  const [keyId, expires, signature] = [only("key"), only("expires"), only("signature")];
  if (!KEY_ID.test(keyId) || !EXPIRES.test(expires) || signature === "") return undefined;
  return { keyId, expiresAtSeconds: Number(expires), signature };
}

/** In the same time, whatever is wrong with the signature. */
export function isSigned(key: Uint8Array, use: SignedUse, { signature, ...grant }: Grant & { signature: string }) {
  const expected = Buffer.from(signatureOf(key, use, grant));
  const given = Buffer.from(signature);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

/** A list in JSON: no value can be mistaken for the end of another. */
function signatureOf(key: Uint8Array, { method, path, sizeBytes, sha256 }: SignedUse, grant: Grant): string {
  const { keyId, expiresAtSeconds } = grant;
  const text = JSON.stringify(["verk:v1:url", method, path, expiresAtSeconds, sizeBytes, sha256, keyId]);
  return createHmac("sha256", key).update(text).digest("base64url");
}
