import { createHmac, timingSafeEqual } from "node:crypto";

/**
 * A signed URL permits one use until it expires, to everyone who has it. The signature is an HMAC-SHA256 over all
 * values that must not change. Values that are not in the query come from the row.
 * NOT covered: the identity of the user, and the number of uses. The upload row makes a URL single-use.
 */
export type SignedUse = {
  method: "GET" | "PUT";
  path: string;
  /** Size and hash of the content that may be sent; null if any. */
  sizeBytes: number | null;
  sha256: string | null;
};
/** The values in the query. The URL stops working together with the API key `keyId`. */
export type Grant = { keyId: string; expiresAtSeconds: number };

export function signedQuery(key: Uint8Array, use: SignedUse, grant: Grant): string {
  return `key=${grant.keyId}&expires=${grant.expiresAtSeconds}&signature=${signatureOf(key, use, grant)}`;
}

const KEY_ID = /^[a-z0-9_]{1,64}$/;
const EXPIRES = /^[1-9]\d{0,11}$/; // no leading zero: each time has one spelling

/** Returns undefined for a query that signedQuery cannot have made. */
export function readSignedQuery(query: URLSearchParams): (Grant & { signature: string }) | undefined {
  const only = (name: string) => {
    const [value, ...more] = query.getAll(name);
    return more.length === 0 ? (value ?? "") : "";
  };
  const [keyId, expires, signature] = [only("key"), only("expires"), only("signature")];
  if (!KEY_ID.test(keyId) || !EXPIRES.test(expires) || signature === "") return undefined;
  return { keyId, expiresAtSeconds: Number(expires), signature };
}

/** Compares in constant time. */
export function isSigned(key: Uint8Array, use: SignedUse, { signature, ...grant }: Grant & { signature: string }) {
  const expected = Buffer.from(signatureOf(key, use, grant));
  const received = Buffer.from(signature);
  return received.length === expected.length && timingSafeEqual(received, expected);
}

/** Signs a JSON list, so that no value can run into the next one. */
function signatureOf(key: Uint8Array, { method, path, sizeBytes, sha256 }: SignedUse, grant: Grant): string {
  const { keyId, expiresAtSeconds } = grant;
  const text = JSON.stringify(["verk:v1:url", method, path, expiresAtSeconds, sizeBytes, sha256, keyId]);
  return createHmac("sha256", key).update(text).digest("base64url");
}
