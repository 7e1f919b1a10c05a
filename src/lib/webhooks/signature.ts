import { timingSafeEqual } from "node:crypto";

/**
 * The Standard Webhooks scheme: base64 of HMAC-SHA256 over `id.timestamp.body`, the raw bytes of the body. Neither id
 * nor timestamp may hold a dot, so no other three parts give the same signed content.
 * NOT covered: replay within the tolerance; a receiver drops an id it has seen.
 */
const PREFIX = "whsec_";
const MIN_KEY_BYTES = 24;
const MAX_KEY_BYTES = 64;
const MINTED_KEY_BYTES = 33; // a multiple of three: no padding, so the four characters a mask shows tell secrets apart
const MASK = `${PREFIX}****`;

export const TOLERANCE_SECONDS = 300;
const MAX_ENTRIES = 16; // of an untrusted header

const ID = /^[A-Za-z0-9_-]{1,128}$/;
const SECONDS = /^(0|[1-9]\d{0,11})$/; // one spelling only

export type Message = { id: string; timestampSeconds: number; body: Uint8Array };

export const mintSecret = (): string =>
  PREFIX + Buffer.from(crypto.getRandomValues(new Uint8Array(MINTED_KEY_BYTES))).toString("base64");

/** The key in a secret. Undefined unless the text is the prefix and canonical base64 of 24 to 64 bytes. */
export function keyOf(secret: string): Uint8Array | undefined {
  if (!secret.startsWith(PREFIX)) return undefined;
  const text = secret.slice(PREFIX.length);
  const key = Buffer.from(text, "base64");
  const canonical = key.toString("base64") === text; // the decoder skips unknown characters
  return canonical && key.length >= MIN_KEY_BYTES && key.length <= MAX_KEY_BYTES ? key : undefined;
}

/** Text that is not a secret is masked whole: it may be another kind of secret. */
export const maskSecret = (secret: string): string => (keyOf(secret) === undefined ? MASK : MASK + secret.slice(-4));

export function macOf(key: Uint8Array, ...parts: readonly (string | Uint8Array)[]): Buffer {
  const mac = new Bun.CryptoHasher("sha256", key); // two thirds of the time of `createHmac`
  for (const part of parts) mac.update(part);
  return mac.digest();
}

/** The value of `webhook-signature`: one entry for each secret, in their order. */
export function sign({ id, timestampSeconds, body }: Message, secrets: readonly string[]): string {
  const timestamp = String(timestampSeconds);
  if (!ID.test(id)) throw new Error("A message id to sign is 1 to 128 letters, digits, _ and -");
  if (!SECONDS.test(timestamp)) throw new Error("A timestamp to sign is in whole seconds of Unix time");
  if (secrets.length === 0) throw new Error("There is no secret to sign with");
  return secrets
    .map((secret) => {
      const key = keyOf(secret);
      if (key === undefined) throw new Error("A secret to sign with is whsec_ and base64 of 24 to 64 bytes");
      return `v1,${macOf(key, `${id}.${timestamp}.`, body).toString("base64")}`;
    })
    .join(" ");
}

/** The headers of a delivery. */
export const deliveryHeaders = (message: Message, secrets: readonly string[]) => ({
  "content-type": "application/json",
  "webhook-id": message.id,
  "webhook-timestamp": String(message.timestampSeconds),
  "webhook-signature": sign(message, secrets),
});

/** The other scheme: hex of HMAC-SHA256 over the body alone, by the text of the newest secret. */
export const serviceHeaders = ({ id, body }: Message, [secret]: readonly string[]): Record<string, string> => {
  if (secret === undefined) throw new Error("There is no secret to sign with");
  const mac = macOf(new TextEncoder().encode(secret), body).toString("hex");
  return { "content-type": "application/json", "webhook-id": id, "x-service-signature": `sha256=${mac}` };
};

export type Refusal =
  | "missing_headers"
  | "malformed_id"
  | "malformed_timestamp"
  | "too_old"
  | "too_new"
  | "too_many_signatures"
  | "no_matching_signature";
export type Verification = { valid: true; id: string } | { valid: false; reason: Refusal };
export type ReceivedDelivery = { headers: { get(name: string): string | null }; body: Uint8Array };
export type Verifier = { secrets: readonly string[]; nowSeconds: number; toleranceSeconds?: number };

/** The check of a receiver. Every entry is compared with every secret, in constant time. */
export function verify({ headers, body }: ReceivedDelivery, verifier: Verifier): Verification {
  const refuse = (reason: Refusal): Verification => ({ valid: false, reason });
  const [id, timestamp, signature] = ["id", "timestamp", "signature"].map((name) => headers.get(`webhook-${name}`));
  if (!id || !timestamp || !signature) return refuse("missing_headers");
  if (!ID.test(id)) return refuse("malformed_id");
  if (!SECONDS.test(timestamp)) return refuse("malformed_timestamp");
  const ageSeconds = verifier.nowSeconds - Number(timestamp);
  const tolerance = verifier.toleranceSeconds ?? TOLERANCE_SECONDS;
  if (ageSeconds > tolerance) return refuse("too_old");
  if (ageSeconds < -tolerance) return refuse("too_new");
  const entries = signature.split(" ");
  if (entries.length > MAX_ENTRIES) return refuse("too_many_signatures");
  const expected = sign({ id, timestampSeconds: Number(timestamp), body }, verifier.secrets).split(" ");
  let matches = false;
  for (const entry of entries) for (const each of expected) matches = isSame(entry, each) || matches;
  return matches ? { valid: true, id } : refuse("no_matching_signature");
}

function isSame(signature: string, expected: string): boolean {
  const [a, b] = [Buffer.from(signature), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
