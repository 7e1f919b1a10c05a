/** One-time codes from a shared secret and the time (RFC 6238): HMAC-SHA-1, 30 seconds, six digits. Every app knows these. */
import { createHmac, timingSafeEqual } from "node:crypto";

const STEP_MS = 30_000;
/** Steps before and after now whose codes count: the clock of a phone may be half a minute off. */
const SKEW_STEPS = 1;
const SECRET_BYTES = 20;
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

export const newSecret = (): Uint8Array => crypto.getRandomValues(new Uint8Array(SECRET_BYTES));

/** RFC 4648, without padding: apps ask for the secret in this form. */
export function base32(bytes: Uint8Array): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{1,5}/g) ?? []).map((five) => ALPHABET[Number.parseInt(five.padEnd(5, "0"), 2)]).join("");
}

export const stepAt = (nowMs: number): number => Math.floor(nowMs / STEP_MS);

export function codeOf(secret: Uint8Array, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac("sha1", secret).update(counter).digest();
  const at = (mac.at(-1) ?? 0) & 15;
  return String((mac.readUInt32BE(at) & 0x7fffffff) % 1_000_000).padStart(6, "0");
}

type Check = { secret: Uint8Array; code: string; nowMs: number; lastStep: number };

/** The step of a code that is valid now and newer than `lastStep`. Undefined: wrong, too old, or used before. */
export function stepOfCode({ secret, code, nowMs, lastStep }: Check): number | undefined {
  const now = stepAt(nowMs);
  let validStep: number | undefined;
  for (let step = now - SKEW_STEPS; step <= now + SKEW_STEPS; step++) {
    const wanted = Buffer.from(codeOf(secret, step));
    const received = Buffer.from(code);
    if (received.length === wanted.length && timingSafeEqual(received, wanted) && step > lastStep) validStep ??= step;
  }
  return validStep;
}

/** The address that an app reads from a picture or a link. */
export function otpauthUri(secret: Uint8Array, { issuer, account }: { issuer: string; account: string }): string {
  const label = `${encodeURIComponent(issuer)}:${encodeURIComponent(account)}`;
  return `otpauth://totp/${label}?secret=${base32(secret)}&issuer=${encodeURIComponent(issuer)}&algorithm=SHA1&digits=6&period=30`;
}
