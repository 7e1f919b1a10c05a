import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  statSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { UsageError } from "../lib/errors.ts";
import { failpoint } from "./failpoint.ts";
import { asStorageError, errorCode, syncDirSync, tempPath } from "./files.ts";

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
  const keyId = idOf(master);
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
      const id = idOf(newMaster);
      return ["v1", id, toText(encrypt(newMaster, dataKey, wrapAad(id))), content].join(".");
    },
    derive: (label) => {
      const key = derived.get(label) ?? new Uint8Array(hkdfSync("sha256", master, "", `verk:v1:derive:${label}`, 32));
      derived.set(label, key);
      return key;
    },
  };
}

export const generateMasterKey = (): Uint8Array => randomBytes(32);

/**
 * The box under the master key in `file`, which is made on the first start. `sealed` gives a sealed text of the
 * database, if there is one: without the key that sealed it, starting would only make the loss permanent.
 */
export function openSecretBox({ file, sealed }: { file: string; sealed: () => string | undefined }): SecretBox {
  const found = readMasterKey(file);
  const sample = sealed();
  if (found) {
    const box = createSecretBox(found);
    const [, keyId = box.keyId] = sample?.split(".") ?? [];
    if (keyId === box.keyId) return box;
    throw new UsageError(
      `The master key ${file} is not the one that sealed the secrets of the database (it is ${box.keyId}, theirs is ${keyId}). ` +
        "Put the right file back from your backup (or set secrets.master_key_file to where it is) and start again.",
    );
  }
  if (sample !== undefined)
    throw new UsageError(
      `The database holds secrets, but their master key ${file} is missing. ` +
        "Restore that file from your backup (or set secrets.master_key_file to where it is) and start again. " +
        "If it is lost for good, remove the sealed secrets first: without the key nothing can read them.",
    );
  makeMasterKey(file);
  return createSecretBox(readMasterKey(file)!);
}

function readMasterKey(file: string): Uint8Array | undefined {
  let text: string;
  try {
    const { mode, uid } = statSync(file);
    checkMode(file, mode, uid);
    text = readFileSync(file, "utf8").trim();
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw asStorageError(file, "read", error);
  }
  if (!/^[0-9a-f]{64}$/i.test(text))
    throw new UsageError(`The master key ${file} is damaged: it must hold 64 hex digits. Restore it from your backup.`);
  return Buffer.from(text, "hex");
}

/** True if a key file of this mode and owner can be read by its user alone. */
export const isPrivate = (mode: number, uid: number) =>
  (mode & 0o077) === 0 ||
  // systemd hands a credential to a service user as root's 0440 file with an access list for that user alone
  ((mode & 0o777) === 0o440 && uid === 0 && process.getuid?.() !== 0);

function checkMode(file: string, mode: number, uid: number) {
  if (isPrivate(mode, uid)) return;
  const shown = (mode & 0o777).toString(8).padStart(4, "0");
  throw new UsageError(`The master key ${file} may be read by others (mode ${shown}). Run: chmod 600 ${file}`);
}

/** Whole or not at all, and never over an existing key: flushed under another name, then linked to its own. */
function makeMasterKey(file: string) {
  const dir = dirname(file);
  const temp = tempPath(dir);
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    const fd = openSync(temp, "wx", 0o600);
    try {
      writeSync(fd, `${Buffer.from(generateMasterKey()).toString("hex")}\n`);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    failpoint("secrets.before_link");
    linkSync(temp, file);
    failpoint("secrets.after_link");
    syncDirSync(dir);
  } catch (error) {
    if (errorCode(error) !== "EEXIST") throw asStorageError(file, "create", error); // else: another process was first
  } finally {
    try {
      unlinkSync(temp);
    } catch {
      // it was never made
    }
  }
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
const idOf = (master: Uint8Array) =>
  createHash("sha256").update("verk:v1:key-id:").update(master).digest("hex").slice(0, 8);
const toText = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64url");

function fromText(text: string): Uint8Array {
  const bytes = Buffer.from(text, "base64url");
  if (bytes.toString("base64url") !== text) throw new SecretError("malformed", "The sealed secret is not base64url");
  return bytes;
}
