/**
 * Reports of detections are signed with Ed25519. The last line of a report is a comment of HTML with the public key and the
 * signature of everything before that line.
 */
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";

const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");
const SPKI = Buffer.from("302a300506032b6570032100", "hex");
const LAST_LINE = /\n<!-- verk-report ([A-Za-z0-9_-]{43}) ([A-Za-z0-9_-]{86}) -->\n?$/;
const LAST_LINE_BYTES = 200;

const secretOf = (seed: Uint8Array): KeyObject =>
  createPrivateKey({ key: Buffer.concat([PKCS8, seed]), type: "pkcs8", format: "der" });

/** `seed`: 32 bytes. */
export const publicKeyOf = (seed: Uint8Array): string =>
  createPublicKey(secretOf(seed)).export({ type: "spki", format: "der" }).subarray(SPKI.length).toString("base64url");

export function signReport(html: string, seed: Uint8Array): string {
  const signature = sign(null, Buffer.from(html), secretOf(seed)).toString("base64url");
  return `${html}\n<!-- verk-report ${publicKeyOf(seed)} ${signature} -->\n`;
}

/** `key`: the public key that the report names. It says who signed only if the reader knows the key. */
export type Verification = { key: string; valid: boolean };

/** Undefined: the file is no signed report. */
export function verifyReport(file: Uint8Array): Verification | undefined {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.length);
  const from = Math.max(0, bytes.length - LAST_LINE_BYTES);
  const end = bytes.toString("latin1", from);
  const match = LAST_LINE.exec(end);
  const [, key, signature] = match ?? [];
  if (!match || key === undefined || signature === undefined) return undefined;
  const content = bytes.subarray(0, from + match.index);
  try {
    const der = Buffer.concat([SPKI, Buffer.from(key, "base64url")]);
    const publicKey = createPublicKey({ key: der, type: "spki", format: "der" });
    return { key, valid: verify(null, content, publicKey, Buffer.from(signature, "base64url")) };
  } catch {
    return { key, valid: false }; // no point of the curve
  }
}
