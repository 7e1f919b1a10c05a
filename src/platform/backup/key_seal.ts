/** Encrypts the keys of a data directory to a passphrase, or to the X25519 public key of an operator. */
import {
  createCipheriv,
  createDecipheriv,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
  randomBytes,
  scrypt,
} from "node:crypto";
import { promisify } from "node:util";
import { UsageError } from "../../lib/errors.ts";
import { OutsideError, readOutside } from "../../lib/json/outside.ts";
import { KEY_FILES, type SealedKeys } from "./manifest.ts";

/** Path below the data directory → text of the key file. */
export type KeyFiles = Readonly<Record<string, string>>;
/** `recipient`: PEM of a public key to seal, of the private key to open. */
export type Sealer = { passphrase: string } | { recipient: string };

const SCRYPT = { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 2 ** 20 }; // 32 MiB and about a tenth of a second for each guess
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const MIN_PASSPHRASE = 12;

/** On a thread of the runtime: the server goes on answering. */
const passphraseKey = promisify(
  (passphrase: string, salt: Uint8Array, done: (error: Error | null, key: Buffer) => void) =>
    scrypt(passphrase, salt, 32, SCRYPT, done),
);

/** `id` of the backup is authenticated: the sealed keys do not open in another backup. */
export async function sealKeys(keys: KeyFiles, sealer: Sealer, id: string): Promise<SealedKeys> {
  const text = JSON.stringify(keys);
  if ("passphrase" in sealer) {
    if (sealer.passphrase.length < MIN_PASSPHRASE)
      throw new UsageError(`The passphrase is too short: use ${MIN_PASSPHRASE} characters or more`);
    const salt = randomBytes(16);
    const key = await passphraseKey(sealer.passphrase, salt);
    return { kind: "passphrase", hint: salt.toString("base64"), sealed: encrypt(key, text, id) };
  }
  const recipient = x25519(() => createPublicKey(sealer.recipient), "public");
  const { publicKey, privateKey } = generateKeyPairSync("x25519");
  const sender = publicKey.export({ type: "spki", format: "der" });
  const key = sharedKey(privateKey, recipient, sender);
  return { kind: "recipient", hint: sender.toString("base64"), sealed: encrypt(key, text, id) };
}

export async function openKeys({ kind, hint, sealed }: SealedKeys, sealer: Sealer, id: string): Promise<KeyFiles> {
  const isPassphrase = "passphrase" in sealer;
  if (isPassphrase !== (kind === "passphrase"))
    throw new UsageError(
      `The keys of this backup are sealed to a ${kind}: use --${isPassphrase ? "identity" : "passphrase-file"}`,
    );
  const bytes = Buffer.from(hint, "base64");
  const key = isPassphrase
    ? await passphraseKey(sealer.passphrase, bytes)
    : openedKey(
        x25519(() => createPrivateKey(sealer.recipient), "private"),
        bytes,
      );
  return readKeys(opened(() => decrypt(key, Buffer.from(sealed, "base64"), id), isPassphrase));
}

function opened(open: () => string, isPassphrase: boolean): string {
  try {
    return open();
  } catch (cause) {
    throw new UsageError(`The ${isPassphrase ? "passphrase" : "identity"} does not open the keys of this backup`, 1, {
      cause,
    });
  }
}

/** The seal proves nothing about its author: sealing to a recipient needs only the public key. */
function readKeys(text: string): KeyFiles {
  try {
    return readOutside(KEY_FILES, text);
  } catch (cause) {
    if (!(cause instanceof OutsideError)) throw cause;
    throw new UsageError(`The keys of this backup are not written by Verk: ${cause.message}`, 1, { cause });
  }
}

function openedKey(identity: KeyObject, sender: Buffer): Buffer {
  return sharedKey(identity, createPublicKey({ key: sender, type: "spki", format: "der" }), sender);
}

const sharedKey = (privateKey: KeyObject, publicKey: KeyObject, sender: Uint8Array) =>
  Buffer.from(hkdfSync("sha256", diffieHellman({ privateKey, publicKey }), sender, "verk:v1:backup", 32));

function x25519(read: () => KeyObject, part: "public" | "private"): KeyObject {
  let key: KeyObject | undefined;
  try {
    key = read();
  } catch {
    // the message below says what is expected
  }
  if (key?.asymmetricKeyType === "x25519") return key;
  throw new UsageError(`Expected the ${part} part of an X25519 key in PEM format (openssl genpkey -algorithm x25519)`);
}

function encrypt(key: Uint8Array, text: string, id: string): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(Buffer.from(`verk:v1:backup:${id}`));
  return Buffer.concat([nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()]).toString("base64");
}

function decrypt(key: Uint8Array, bytes: Buffer, id: string): string {
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(`verk:v1:backup:${id}`)).setAuthTag(bytes.subarray(-TAG_BYTES));
  return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString("utf8");
}
