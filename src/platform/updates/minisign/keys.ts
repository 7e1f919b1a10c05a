/**
 * Keys in the format of minisign: two lines, a comment and base64. A public key is `Ed`, an id of 8 bytes and 32 bytes of
 * Ed25519. A secret key holds the seed, the public key and a checksum, XORed with a stream of scrypt if it has a passphrase.
 */
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  scryptSync,
} from "node:crypto";
import { UsageError } from "../../../lib/errors.ts";
import { GIB, MIB } from "../../../lib/units.ts";

export type PublicKey = { id: Buffer; bytes: Buffer; key: KeyObject };
export type SecretKey = PublicKey & { secret: KeyObject };

const SPKI = Buffer.from("302a300506032b6570032100", "hex"); // the DER before the 32 bytes of a public Ed25519 key
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex"); // and before the seed of a private one
const PUBLIC_BYTES = 2 + 8 + 32;
const SECRET_BYTES = 158;
const SEALED_AT = 54; // id, seed, public key, checksum
const NO_PASSPHRASE = "\0\0";
/** The limits that minisign writes: N = 2^20, r = 8, p = 1, which takes 1 GiB and seconds for each guess. */
const OPERATIONS = 2 ** 25;
const MEMORY = GIB;

/** Reads the text of a .pub file, or its second line alone. */
export function readPublicKey(text: string): PublicKey {
  const bytes = base64Of(lastLine(text));
  if (bytes?.length !== PUBLIC_BYTES || bytes.toString("latin1", 0, 2) !== "Ed")
    throw new UsageError("This is not a public key of minisign: expected the line that begins with RW");
  return publicKey(bytes.subarray(2, 10), bytes.subarray(10));
}

function publicKey(id: Buffer, bytes: Buffer): PublicKey {
  return { id, bytes, key: createPublicKey({ key: Buffer.concat([SPKI, bytes]), type: "spki", format: "der" }) };
}

/** The line that people compare and paste: `RW…`. */
export const publicKeyLine = ({ id, bytes }: PublicKey) =>
  Buffer.concat([Buffer.from("Ed"), id, bytes]).toString("base64");

export const publicKeyFile = (key: PublicKey) =>
  `untrusted comment: minisign public key ${keyName(key.id)}\n${publicKeyLine(key)}\n`;

/** The id as minisign prints it. */
export const keyName = (id: Buffer) => Buffer.from(id).reverse().toString("hex").toUpperCase();

export function generateKey(): SecretKey {
  const { privateKey } = generateKeyPairSync("ed25519");
  return secretKey(randomBytes(8), privateKey.export({ type: "pkcs8", format: "der" }).subarray(PKCS8.length));
}

function secretKey(id: Buffer, seed: Buffer): SecretKey {
  const secret = createPrivateKey({ key: Buffer.concat([PKCS8, seed]), type: "pkcs8", format: "der" });
  const bytes = createPublicKey(secret).export({ type: "spki", format: "der" }).subarray(SPKI.length);
  return { ...publicKey(id, bytes), secret };
}

/** Without a passphrase the file alone is enough to sign. */
export function secretKeyFile({ id, bytes, secret }: SecretKey, passphrase?: string): string {
  const seed = secret.export({ type: "pkcs8", format: "der" }).subarray(PKCS8.length);
  const head = Buffer.alloc(SEALED_AT);
  head.write(`Ed${passphrase === undefined ? NO_PASSPHRASE : "Sc"}B2`, "latin1");
  let sealed = Buffer.concat([id, seed, bytes, Buffer.alloc(32)]);
  if (passphrase !== undefined) {
    checksum(id, seed, bytes).copy(sealed, 72);
    randomBytes(32).copy(head, 6);
    head.writeBigUInt64LE(BigInt(OPERATIONS), 38);
    head.writeBigUInt64LE(BigInt(MEMORY), 46);
    sealed = xor(sealed, stretch(passphrase, head));
  }
  const kind = passphrase === undefined ? "unencrypted" : "encrypted";
  return `untrusted comment: minisign ${kind} secret key\n${Buffer.concat([head, sealed]).toString("base64")}\n`;
}

export function readSecretKey(text: string, passphrase?: string): SecretKey {
  const bytes = base64Of(lastLine(text));
  if (
    bytes?.length !== SECRET_BYTES ||
    bytes.toString("latin1", 0, 2) !== "Ed" ||
    bytes.toString("latin1", 4, 6) !== "B2"
  )
    throw new UsageError("This is not a secret key of minisign");
  const kdf = bytes.toString("latin1", 2, 4);
  if (kdf !== "Sc" && kdf !== NO_PASSPHRASE) throw new UsageError("This secret key has an unknown kind of encryption");
  if (kdf === "Sc" && passphrase === undefined)
    throw new UsageError("This secret key has a passphrase: name its file with --passphrase-file");
  const sealed = bytes.subarray(SEALED_AT);
  const plain = kdf === "Sc" ? xor(sealed, stretch(passphrase ?? "", bytes)) : sealed;
  const [id, seed, pub] = [plain.subarray(0, 8), plain.subarray(8, 40), plain.subarray(40, 72)];
  const key = secretKey(id, seed);
  // minisign leaves the checksum of a key without a passphrase empty. The public key inside checks the seed there.
  const isWhole = kdf === "Sc" ? checksum(id, seed, pub).equals(plain.subarray(72)) : key.bytes.equals(pub);
  if (isWhole) return key;
  throw new UsageError(kdf === "Sc" ? "The passphrase does not open this secret key" : "This secret key is damaged");
}

const checksum = (...parts: Buffer[]) => {
  const hasher = new Bun.CryptoHasher("blake2b256").update("Ed");
  for (const part of parts) hasher.update(part);
  return Buffer.from(hasher.digest());
};

function stretch(passphrase: string, head: Buffer): Buffer {
  const { n, r, p } = scryptParameters(Number(head.readBigUInt64LE(38)), Number(head.readBigUInt64LE(46)));
  return scryptSync(passphrase, head.subarray(6, 38), SECRET_BYTES - SEALED_AT, {
    N: n,
    r,
    p,
    maxmem: 128 * n * r + MIB + 128 * r * p,
  });
}

/** libsodium's rule, by which minisign turns its two limits into the parameters of scrypt. */
function scryptParameters(operations: number, memory: number): { n: number; r: number; p: number } {
  if (memory > MEMORY || operations > 2 ** 30) throw new UsageError("This secret key needs too much memory or time");
  const most = Math.max(operations, 32_768);
  const r = 8;
  const powerFor = (max: number) => {
    let power = 1;
    while (power < 63 && 2 ** power <= max / 2) power++;
    return 2 ** power;
  };
  if (most < memory / 32) return { n: powerFor(Math.floor(most / (r * 4))), r, p: 1 };
  const n = powerFor(Math.floor(memory / (r * 128)));
  return { n, r, p: Math.max(1, Math.floor(Math.floor(most / 4 / n) / r)) };
}

const xor = (a: Buffer, b: Buffer) => Buffer.from(a.map((byte, i) => byte ^ (b[i] ?? 0)));

const lastLine = (text: string) => text.trim().split(/\r?\n/).at(-1)?.trim() ?? "";

/** Undefined for text that is not exactly base64: Buffer.from would skip what it does not know. */
export function base64Of(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  return bytes.toString("base64") === text ? bytes : undefined;
}
