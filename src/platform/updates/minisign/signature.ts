/**
 * Signatures in the format of minisign: four lines. The second is the algorithm, the id of the key and the signature of the
 * content. The fourth signs the signature with the trusted comment.
 */
import { sign as signBytes, verify as verifyBytes } from "node:crypto";
import { UsageError } from "../../../lib/errors.ts";
import { base64Of, keyName, type PublicKey, type SecretKey } from "./keys.ts";

export type Signature = { prehashed: boolean; id: Buffer; bytes: Buffer; comment: string; global: Buffer };

const COMMENT = "trusted comment: ";

/** `ED`: the signature is of the BLAKE2b-512 of the content, as minisign 0.11 and newer sign. */
export function sign(content: Uint8Array, key: SecretKey, comment: string): string {
  if (/[\r\n]/.test(comment)) throw new UsageError("The comment of a signature is one line");
  const bytes = signBytes(null, blake2b(content), key.secret);
  const global = signBytes(null, Buffer.concat([bytes, Buffer.from(comment)]), key.secret);
  return signatureFile({ prehashed: true, id: key.id, bytes, comment, global });
}

export function signatureFile({ prehashed, id, bytes, comment, global }: Signature): string {
  const line = Buffer.concat([Buffer.from(prehashed ? "ED" : "Ed"), id, bytes]).toString("base64");
  return `untrusted comment: signature of key ${keyName(id)}\n${line}\n${COMMENT}${comment}\n${global.toString("base64")}\n`;
}

export function readSignature(text: string): Signature {
  const [untrusted, first, trusted, second, ...rest] = text.trimEnd().split(/\r?\n/);
  const bytes = base64Of(first ?? "");
  const global = base64Of(second ?? "");
  const kind = bytes?.toString("latin1", 0, 2);
  const isWhole = untrusted?.startsWith("untrusted comment: ") && trusted?.startsWith(COMMENT) && rest.length === 0;
  if (!isWhole || !trusted || bytes?.length !== 74 || global?.length !== 64 || (kind !== "ED" && kind !== "Ed"))
    throw new UsageError("This is not a signature of minisign");
  return {
    prehashed: kind === "ED",
    id: bytes.subarray(2, 10),
    bytes: bytes.subarray(10),
    comment: trusted.slice(COMMENT.length),
    global,
  };
}

/** True if one of the keys signed exactly this content and this comment. */
export function isSigned(content: Uint8Array, signature: Signature, keys: readonly PublicKey[]): boolean {
  const { prehashed, bytes, comment, global } = signature;
  const signed = prehashed ? blake2b(content) : content;
  const whole = Buffer.concat([bytes, Buffer.from(comment)]);
  return keys
    .filter(({ id }) => id.equals(signature.id))
    .some(({ key }) => verifyBytes(null, signed, key, bytes) && verifyBytes(null, whole, key, global));
}

const blake2b = (content: Uint8Array) => Buffer.from(new Bun.CryptoHasher("blake2b512").update(content).digest());
