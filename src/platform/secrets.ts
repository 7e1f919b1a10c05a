import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import { UsageError } from "../lib/errors.ts";
import { finishRotation, keyIdOf, makeMasterKey, masterKeyFor, readMasterKey } from "./master_key.ts";

/**
 * Encryption at rest. Every secret has its own data key (AES-256-GCM), wrapped by the master key. So a new master key
 * rewraps 32 bytes per secret and touches no content. `aad` ties a sealed text to its row: a copy in another row or
 * workspace does not open.
 * NOT covered: a reader of the key file or of this process's memory; putting back an older sealed text of the same row;
 * the length of a secret; wiping memory, which JavaScript cannot promise.
 */
export type SecretBox = {
  /** `v1.<key id>.<wrapped data key>.<content>`, base64url. */
  seal: (plaintext: string | Uint8Array, aad: string) => string;
  open: (sealed: string, aad: string) => Uint8Array;
  /** The same secret under another master key; the content is not touched. */
  rewrap: (sealed: string, newMaster: Uint8Array) => string;
  /** A key of 32 bytes for another purpose. It depends on the master key and the label only, and is cached. */
  derive: (label: string) => Uint8Array;
  /** Eight hex digits that name the master key and say nothing about it. */
  keyId: string;
};

export class SecretError extends Error {
  constructor(
    readonly reason: "malformed" | "wrong_key" | "not_authentic",
    message: string,
  ) {
    super(message);
    this.name = "SecretError";
  }
}

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export function createSecretBox(master: Uint8Array): SecretBox {
  if (master.length !== 32) throw new Error("A master key has 32 bytes");
  const keyId = keyIdOf(master);
  const derived = new Map<string, Uint8Array>();

  const unwrap = (sealed: string) => {
    const [version, id = "", wrapped = "", content = "", ...rest] = sealed.split(".");
    if (version !== "v1" || rest.length > 0 || content === "")
      throw new SecretError("malformed", "This is not a sealed secret");
    if (id !== keyId)
      throw new SecretError("wrong_key", `The secret is sealed under master key ${id}, ours is ${keyId}`);
    return { dataKey: decrypt(master, fromText(wrapped), wrapAad(id)), content };
  };

  return {
    keyId,
    seal: (plaintext, aad) => {
      const dataKey = randomBytes(32);
      const bytes = typeof plaintext === "string" ? new TextEncoder().encode(plaintext) : plaintext;
      const content = encrypt(dataKey, bytes, contentAad(aad));
      return ["v1", keyId, toText(encrypt(master, dataKey, wrapAad(keyId))), toText(content)].join(".");
    },
    open: (sealed, aad) => {
      const { dataKey, content } = unwrap(sealed);
      return decrypt(dataKey, fromText(content), contentAad(aad));
    },
    rewrap: (sealed, newMaster) => {
      const { dataKey, content } = unwrap(sealed);
      const id = keyIdOf(newMaster);
      return ["v1", id, toText(encrypt(newMaster, dataKey, wrapAad(id))), content].join(".");
    },
    derive: (label) => {
      const key = derived.get(label) ?? new Uint8Array(hkdfSync("sha256", master, "", `verk:v1:derive:${label}`, 32));
      derived.set(label, key);
      return key;
    },
  };
}

/** The id of the master key that sealed the text. */
export const sealerOf = (sealed: string | undefined): string | undefined => sealed?.split(".")[1];

/**
 * The master key for a database with the sealed text `sample`. Undefined: there is neither a key nor a secret yet. Throws
 * the reason why a server cannot start. It changes nothing.
 */
export function requireMasterKey(file: string, sample: string | undefined): Uint8Array | undefined {
  const keyId = sealerOf(sample);
  const key = masterKeyFor(file, keyId);
  if (key || keyId === undefined) return key;
  const otherKey = readMasterKey(file);
  if (otherKey)
    throw new UsageError(
      `The master key ${file} is not the one that sealed the secrets of the database (it is ${keyIdOf(otherKey)}, theirs is ${keyId}). ` +
        "Put the right file back from your backup (or set secrets.master_key_file to where it is) and start again.",
    );
  throw new UsageError(
    `The database holds secrets, but their master key ${file} is missing. ` +
      "Restore that file from your backup (or set secrets.master_key_file to where it is) and start again. " +
      "If it is lost for good, remove the sealed secrets first: without the key nothing can read them.",
  );
}

/**
 * The box under the master key in `file`, which is made on the first start. `sealed` gives a sealed text of the
 * database, if there is one: without the key that sealed it, starting would only make the loss permanent.
 */
export function openSecretBox({ file, sealed }: { file: string; sealed: () => string | undefined }): SecretBox {
  const key = requireMasterKey(file, sealed());
  if (!key) makeMasterKey(file);
  else finishRotation(file, keyIdOf(key)); // a kill may have come between the commit and the rename of the key file
  return createSecretBox(key ?? readMasterKey(file)!);
}

function encrypt(key: Uint8Array, plaintext: Uint8Array, aad: Uint8Array): Uint8Array {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(aad);
  return Buffer.concat([nonce, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
}

function decrypt(key: Uint8Array, box: Uint8Array, aad: Uint8Array): Uint8Array {
  if (box.length < NONCE_BYTES + TAG_BYTES) throw new SecretError("malformed", "The sealed secret is cut short");
  const decipher = createDecipheriv("aes-256-gcm", key, box.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(aad).setAuthTag(box.subarray(box.length - TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(box.subarray(NONCE_BYTES, box.length - TAG_BYTES)), decipher.final()]);
  } catch {
    throw new SecretError("not_authentic", "The sealed secret was changed, or belongs to another place");
  }
}

const wrapAad = (keyId: string) => new TextEncoder().encode(`verk:v1:wrap:${keyId}`);
const contentAad = (aad: string) => new TextEncoder().encode(`verk:v1:content:${aad}`);
const toText = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64url");

function fromText(text: string): Uint8Array {
  const bytes = Buffer.from(text, "base64url");
  if (bytes.toString("base64url") !== text) throw new SecretError("malformed", "The sealed secret is not base64url");
  return bytes;
}
