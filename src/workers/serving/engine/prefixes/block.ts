/**
 * A block: what a prefix of a prompt left in the cache for BLOCK tokens, sealed for the disk. The cipher (AEGIS-128X2, in
 * native/shim/blocks.c) checks every byte before use. The name is sealed too, and a name stands for the model, the adapter
 * and all tokens up to there: a block that was damaged, cut, renamed or made with another key does not open.
 */
import { createHmac, randomBytes } from "node:crypto";
import { closeSync, fstatSync, openSync } from "node:fs";
import { join } from "node:path";
import { getSystemErrorName } from "node:util";
import { BLOCK_FORMAT } from "../../../../lib/prefix_blocks.ts";
import { cstr } from "../../../../native/ffi.ts";
import type { Shim } from "../../../../native/shim/shim.ts";
import { tempPath } from "../../../../platform/files.ts";

/** Tokens of a block. */
export const BLOCK = 64;

export const FORMAT = Buffer.from(BLOCK_FORMAT);
export const NONCE_BYTES = 16;
const KEY_BYTES = 16;
/** The head of a sealed block, which the content follows. */
export const SEAL_BYTES = 64;
const BAD_BLOCK = -10_000;
const NAME = /^[0-9a-f]{64}$/;

export const isBlockName = (name: string) => NAME.test(name);

/** Keys for the names of blocks and for their content. Names say nothing about a prompt to a reader without the key. */
export type BlockKeys = { names: Uint8Array; content: Uint8Array };

export const keysOf = (key: Uint8Array): BlockKeys => ({
  names: createHmac("sha256", key).update("names").digest(),
  content: createHmac("sha256", key).update("content").digest().subarray(0, KEY_BYTES),
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

/** Nonces are random, so that two replicas may write the same block. */
export const newNonce = () => randomBytes(NONCE_BYTES);

export function sealBlock(shim: Shim, { content: key }: BlockKeys, name: string, plain: Uint8Array): Uint8Array {
  const sealed = new Uint8Array(SEAL_BYTES + plain.length);
  shim.verk_seal_block(key, cstr(name), FORMAT, newNonce(), plain, plain.length, sealed);
  return sealed;
}

/** Null: the bytes are not the block of this name and key. */
export function openBlock(
  shim: Shim,
  { content: key }: BlockKeys,
  name: string,
  sealed: Uint8Array,
): Uint8Array | null {
  if (sealed.length < SEAL_BYTES) return null;
  const plain = new Uint8Array(sealed.length - SEAL_BYTES);
  const code = shim.verk_open_block(key, cstr(name), FORMAT, sealed, sealed.length, plain);
  return code === 0 ? plain : null;
}

/** An error of the system, with its code. */
export class BlockFault extends Error {
  readonly code: string;

  constructor(errno: number) {
    const code = getSystemErrorName(-errno);
    super(`${code}: a block of a prompt`);
    this.code = code;
  }
}

/** The files of blocks in a folder. */
export class BlockFiles {
  readonly #shim: Shim;
  readonly #dir: string;
  readonly #key: Uint8Array;

  constructor(shim: Shim, dir: string, { content }: BlockKeys) {
    this.#shim = shim;
    this.#dir = dir;
    this.#key = content;
  }

  /** Null: the file is not the block of this name and key. Throws if it cannot be read. */
  read(name: string): Uint8Array | null {
    const path = join(this.#dir, name);
    const plain = new Uint8Array(Math.max(0, bytesOf(path) - SEAL_BYTES));
    const most = plain.length;
    const read = Number(this.#shim.verk_read_block(this.#key, cstr(name), FORMAT, cstr(path), plain, most));
    if (read === BAD_BLOCK) return null;
    if (read < 0) throw new BlockFault(-read);
    return plain.subarray(0, read);
  }

  write(name: string, plain: Uint8Array) {
    const paths = [cstr(tempPath(this.#dir)), cstr(join(this.#dir, name))] as const;
    const [temp, path] = paths;
    const nonce = newNonce();
    const code = this.#shim.verk_write_block(this.#key, cstr(name), FORMAT, temp, path, nonce, plain, plain.length);
    if (code !== 0) throw new BlockFault(code);
  }
}

function bytesOf(path: string): number {
  const fd = openSync(path, "r");
  try {
    return fstatSync(fd).size;
  } finally {
    closeSync(fd);
  }
}
