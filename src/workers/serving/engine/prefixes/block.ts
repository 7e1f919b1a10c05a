/**
 * A block: what a prefix of a prompt left in the cache for BLOCK tokens, sealed for the disk. AES-GCM checks every byte
 * before use. The name is sealed too, and a name stands for the model, the adapter and all tokens up to there: a block
 * that was damaged, cut, renamed or made with another key does not open.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto";
import { BLOCK_FORMAT } from "../../../../lib/prefix_blocks.ts";

/** Tokens of a block. */
export const BLOCK = 64;

const MAGIC = Buffer.from(BLOCK_FORMAT);
const NONCE_BYTES = 12;
export const TAG_BYTES = 16;
/** The content begins here in a sealed block. */
export const BODY_AT = MAGIC.length + NONCE_BYTES;
export const SEAL_BYTES = BODY_AT + TAG_BYTES;
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
  createHmac("sha256", names).update(`root ${BLOCK_FORMAT} ${identity}`).digest("hex");

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

/** `head`: the bytes before the content. The tag of the cipher follows the content. */
export function sealing({ content }: BlockKeys, name: string) {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", content, nonce).setAAD(aadOf(name));
  return { head: Buffer.concat([MAGIC, nonce]), cipher };
}

/** Null: it is no block. `final` of the decipher throws if the bytes are not the block of this name and key. */
export function opening({ content }: BlockKeys, name: string, { head, tag }: { head: Uint8Array; tag: Uint8Array }) {
  if (!MAGIC.equals(head.subarray(0, MAGIC.length))) return null;
  const nonce = head.subarray(MAGIC.length, BODY_AT);
  const decipher = createDecipheriv("aes-256-gcm", content, nonce, { authTagLength: TAG_BYTES });
  return decipher.setAAD(aadOf(name)).setAuthTag(tag);
}

export function sealBlock(keys: BlockKeys, name: string, plain: Uint8Array): Uint8Array {
  const { head, cipher } = sealing(keys, name);
  return Buffer.concat([head, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

/** Null: the bytes are not the block of this name and key. */
export function openBlock(keys: BlockKeys, name: string, sealed: Uint8Array): Uint8Array | null {
  if (sealed.length < SEAL_BYTES) return null;
  const end = sealed.length - TAG_BYTES;
  const decipher = opening(keys, name, { head: sealed.subarray(0, BODY_AT), tag: sealed.subarray(end) });
  if (!decipher) return null;
  try {
    const plain = decipher.update(sealed.subarray(BODY_AT, end));
    decipher.final();
    return plain;
  } catch {
    return null;
  }
}

const aadOf = (name: string) => Buffer.concat([MAGIC, Buffer.from(name)]);
