/** Snowflake's key-pair tokens: the account and the user, signed with the user's key, identified by its fingerprint. */
import { createHash, createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { signJwt } from "../../google_token.ts";
import { SourceError } from "../../types.ts";

export type KeyPair = { account: string; user: string; privateKey: string; passphrase: string | undefined };

/** Snowflake rejects tokens that live longer than an hour. */
const LIFE_SECONDS = 3540;
const EARLY_MS = 120_000;

/** Returns the account's name in tokens: without region or cloud, in capitals. */
export function accountInToken(account: string): string {
  const end = account.includes(".global") ? account.indexOf("-") : account.indexOf(".");
  return (end > 0 ? account.slice(0, end) : account).toUpperCase();
}

export function fingerprint(key: KeyObject): string {
  const der = createPublicKey(key as never).export({ type: "spki", format: "der" });
  return `SHA256:${createHash("sha256").update(der).digest("base64")}`;
}

/** Returns a token that is valid for a while, and makes a new one when needed. */
export function keyPairToken({ account, user, privateKey, passphrase }: KeyPair, now = Date.now): () => string {
  const key = readKey(privateKey, passphrase);
  const subject = `${accountInToken(account)}.${user.toUpperCase()}`;
  const issuer = `${subject}.${fingerprint(key)}`;
  const pem = key.export({ type: "pkcs8", format: "pem" }) as string;
  let held: { token: string; until: number } | undefined;
  return () => {
    if (held && now() < held.until) return held.token;
    const iat = Math.floor(now() / 1000);
    const token = signJwt({ iss: issuer, sub: subject, iat, exp: iat + LIFE_SECONDS }, pem);
    held = { token, until: now() + LIFE_SECONDS * 1000 - EARLY_MS };
    return token;
  };
}

function readKey(pem: string, passphrase: string | undefined): KeyObject {
  const param = "/credentials/private_key";
  let key: KeyObject;
  try {
    key = createPrivateKey(passphrase === undefined ? pem : { key: pem, passphrase });
  } catch {
    // Without the cause: its message may quote the key.
    const locked = pem.includes("ENCRYPTED")
      ? ": private_key_passphrase is missing or wrong"
      : ". Paste it as PEM text";
    throw new SourceError("invalid_source", `private_key cannot be read${locked}`, param);
  }
  if (key.asymmetricKeyType === "rsa") return key;
  throw new SourceError("invalid_source", "private_key must be an RSA key", param);
}
