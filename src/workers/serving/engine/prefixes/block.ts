/**
 * A block: what a prefix of a prompt left in the cache for BLOCK tokens, sealed for the disk. AES-GCM checks every byte
 * before use. The name is sealed too, and a name stands for the model, the adapter and all tokens up to there: a block
 * that was damaged, cut, renamed or made with another key does not open.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto";

/** Tokens of a block. */
export const BLOCK = 64;

const MAGIC = Buffer.from("VKP1");
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
export const SEAL_BYTES = MAGIC.length + NONCE_BYTES + TAG_BYTES;
const NAME = /^[0-9a-f]{64}$/;

export const isBlockName = (name: string) => NAME.test(name);

/** Keys for the names of blocks and for their content. Names say nothing about a prompt to a reader without the key. */
export type BlockKeys = { names: Uint8Array; content: Uint8Array };

export const keysOf = (key: Uint8Array): BlockKeys => ({
  names: createHmac("sha256", key).update("names").digest(),
  content: createHmac("sha256", key).update("content").digest(),
});

/** The beginning of all names: `identity` is everything but the tokens that the numbers in a cache depend on. */
export const rootOf = ({ names }: BlockKeys, identity: string): string =>
  createHmac("sha256", names).update(`root ${identity}`).digest("hex");

/** Names of the first `count` blocks of these tokens. Each name depends on the one before. */
export function namesOf({ names }: BlockKeys, root: string, tokens: Int32Array, count: number): string[] {
  const chain: string[] = [];
  for (let i = 0; i < count; i++) {
    const part = tokens.subarray(i * BLOCK, (i + 1) * BLOCK);
    const bytes = new Uint8Array(part.buffer, part.byteOffset, part.byteLength);
    chain.push(
      createHmac("sha256", names)
        .update(chain[i - 1] ?? root)
        .update(bytes)
        .digest("hex"),
    );
  }
  return chain;
}

export function sealBlock({ content }: BlockKeys, name: string, plain: Uint8Array): Uint8Array {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", content, nonce).setAAD(aadOf(name));
  return Buffer.concat([MAGIC, nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

/** Null: the bytes are not the block of this name and key. */
export function openBlock({ content }: BlockKeys, name: string, sealed: Uint8Array): Uint8Array | null {
  if (sealed.length < SEAL_BYTES || !MAGIC.equals(sealed.subarray(0, MAGIC.length))) return null;
  const body = MAGIC.length + NONCE_BYTES;
  const end = sealed.length - TAG_BYTES;
  const decipher = createDecipheriv("aes-256-gcm", content, sealed.subarray(MAGIC.length, body), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(aadOf(name)).setAuthTag(sealed.subarray(end));
  try {
    const plain = decipher.update(sealed.subarray(body, end));
    decipher.final();
    return plain;
  } catch {
    return null;
  }
}

const aadOf = (name: string) => Buffer.concat([MAGIC, Buffer.from(name)]);
