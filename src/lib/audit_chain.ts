/**
 * Hash-chained JSON lines. Each line has the hash of the line before it, so a line that is changed, removed, added or moved
 * breaks the chain there. Each export ends with a seal: an Ed25519 signature of the last hash.
 * NOT covered: a file that is cut off exactly after an older seal. Keep the last hash elsewhere to find that.
 */
import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";

export type Entry = Readonly<Record<string, unknown>> & { id: string; workspace_id: string };
export type Signer = { publicKey: string; sign: (text: string) => string };
type Line = { hash: string; entry?: Entry; seal?: Seal };
type Seal = { entries: number; public_key: string; signature: string };

export const FIRST = "0".repeat(64);
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex"); // an Ed25519 key without its 32 bytes
const SPKI = Buffer.from("302a300506032b6570032100", "hex");

/** `seed`: 32 bytes. */
export function signerOf(seed: Uint8Array): Signer {
  const key = createPrivateKey({ key: Buffer.concat([PKCS8, seed]), format: "der", type: "pkcs8" });
  const spki = createPublicKey(key).export({ format: "der", type: "spki" });
  const publicKey = spki.subarray(SPKI.length).toString("hex");
  return { publicKey, sign: (text) => sign(null, Buffer.from(text), key).toString("base64url") };
}

const publicKeyOf = (hex: string): KeyObject =>
  createPublicKey({ key: Buffer.concat([SPKI, Buffer.from(hex, "hex")]), format: "der", type: "spki" });

/** Position in a chain, after some line. */
export type Position = { hash: string; entries: number };
export const START: Position = { hash: FIRST, entries: 0 };

const hashOf = (previous: string, content: string) =>
  createHash("sha256").update("verk:audit:1\n").update(previous).update("\n").update(content).digest("hex");

export function entryLine({ hash, entries }: Position, entry: Entry): { line: string; position: Position } {
  const content = JSON.stringify(entry);
  const next = hashOf(hash, content);
  return { line: `{"hash":"${next}","entry":${content}}`, position: { hash: next, entries: entries + 1 } };
}

export function sealLine({ hash, entries }: Position, signer: Signer): { line: string; position: Position } {
  const content = JSON.stringify({
    entries,
    public_key: signer.publicKey,
    signature: signer.sign(`${entries} ${hash}`),
  });
  const next = hashOf(hash, content);
  return { line: `{"hash":"${next}","seal":${content}}`, position: { hash: next, entries } };
}

export type Chain = Position & { lines: number; publicKeys: string[]; sealed: boolean };
export class BrokenChain extends Error {
  constructor(
    readonly line: number,
    readonly reason: string,
  ) {
    super(`line ${line}: ${reason}`);
  }
}

/** Reads a chain line by line. `add` throws BrokenChain at the first line that is wrong. */
export function openChain(onEntry: (entry: Entry) => void = () => {}) {
  let position = START;
  let number = 0;
  let sealed = false;
  const publicKeys = new Set<string>();
  const broken = (reason: string) => new BrokenChain(number, reason);
  const add = (text: string) => {
    number++;
    const { hash, entry, seal } = parsed(text, broken);
    const content = text.slice(text.indexOf(":{") + 1, -1); // the bytes that were hashed, not what JSON made of them
    if (hashOf(position.hash, content) !== hash)
      throw broken("the hash does not follow from the line before it: a line was changed, removed, added or moved");
    sealed = seal !== undefined;
    if (seal) {
      checkSeal(seal, position, broken);
      publicKeys.add(seal.public_key);
    }
    position = { hash, entries: position.entries + (entry ? 1 : 0) };
    if (entry) onEntry(entry);
  };
  const end = (): Chain => ({ ...position, lines: number, publicKeys: [...publicKeys], sealed });
  return { add, end };
}

type Broken = (reason: string) => BrokenChain;
const SHAPE = /^\{"hash":"[0-9a-f]{64}","(entry|seal)":\{.*\}\}$/s;

function parsed(text: string, broken: Broken): Line {
  if (!SHAPE.test(text)) throw broken("this is not a line of an audit export");
  try {
    return JSON.parse(text) as Line;
  } catch {
    throw broken("this is not JSON");
  }
}

function checkSeal({ entries, public_key, signature }: Seal, position: Position, broken: Broken) {
  if (entries !== position.entries)
    throw broken(`the seal covers ${entries} entries, and ${position.entries} are here`);
  const isKey = /^[0-9a-f]{64}$/.test(public_key);
  const text = Buffer.from(`${entries} ${position.hash}`);
  if (!isKey || !verify(null, text, publicKeyOf(public_key), Buffer.from(signature, "base64url")))
    throw broken("the signature of the seal is not right");
}
