import { expect, test } from "bun:test";
import { randomFor } from "../../test/sweep.ts";
import {
  BrokenChain,
  type Entry,
  entryLine,
  openChain,
  type Position,
  START,
  sealLine,
  signerOf,
} from "./audit_chain.ts";

const signer = signerOf(new Uint8Array(32).fill(7));
const entryOf = (n: number): Entry => ({ id: `aud_${n}`, workspace_id: "ws_1", path: `/v1/"x\n${n}é` });

function exported(counts: readonly number[]): string[] {
  const lines: string[] = [];
  let position: Position = START;
  const add = (made: { line: string; position: Position }) => {
    lines.push(made.line);
    position = made.position;
  };
  let n = 0;
  for (const count of counts) {
    for (let i = 0; i < count; i++) add(entryLine(position, entryOf(n++)));
    add(sealLine(position, signer));
  }
  return lines;
}

function read(lines: readonly string[]) {
  const seen: Entry[] = [];
  const chain = openChain((entry) => seen.push(entry));
  for (const line of lines) chain.add(line);
  return { ...chain.end(), seen };
}

const brokenAt = (lines: readonly string[]): number | undefined => {
  try {
    read(lines);
  } catch (error) {
    if (error instanceof BrokenChain) return error.line;
    throw error;
  }
  return undefined;
};

test("a chain of two exports is whole, and gives back its entries", () => {
  const lines = exported([3, 2]);
  const { seen, entries, sealed, publicKeys } = read(lines);
  expect(seen).toEqual([0, 1, 2, 3, 4].map(entryOf));
  expect([entries, sealed, publicKeys]).toEqual([5, true, [signer.publicKey]]);
  expect(lines.every((line) => !line.includes("\n") && JSON.parse(line))).toBe(true);
});

test("the first line that was removed, moved, repeated or changed is named", () => {
  const lines = exported([3, 2]);
  for (let i = 0; i < lines.length - 1; i++) {
    expect(brokenAt(lines.toSpliced(i, 1))).toBe(i + 1);
    expect(brokenAt(lines.toSpliced(i, 0, lines[i] as string))).toBe(i + 2);
    const swapped = [...lines];
    [swapped[i], swapped[i + 1]] = [swapped[i + 1] as string, swapped[i] as string];
    expect(brokenAt(swapped)).toBe(i + 1);
  }
});

test("one changed byte anywhere breaks the chain at its line", () => {
  const lines = exported([4]);
  const random = randomFor("audit chain");
  for (let round = 0; round < 300; round++) {
    const at = Math.floor(random() * lines.length);
    const bytes = Buffer.from(lines[at] as string);
    const i = Math.floor(random() * bytes.length);
    bytes[i] = (bytes[i] as number) ^ (1 << Math.floor(random() * 7));
    const changed = bytes.toString();
    expect(brokenAt(lines.toSpliced(at, 1, changed))).toBe(at + 1);
  }
});

test("a chain that was computed anew without the key has no valid seal", () => {
  const [first, ...rest] = exported([2]);
  const forged = entryLine(START, { id: "aud_x", workspace_id: "ws_1" });
  const second = entryLine(forged.position, entryOf(1));
  const seal = JSON.parse(rest[1] as string).seal;
  const other = sealLine(second.position, signerOf(new Uint8Array(32).fill(8)));
  const stolen = other.line.replace(/"signature":"[^"]+"/, `"signature":"${seal.signature}"`);
  expect(first).toBeDefined();
  expect(brokenAt([forged.line, second.line, stolen])).toBe(3);
  expect(read([forged.line, second.line, other.line]).publicKeys).not.toEqual([signer.publicKey]); // told by its key
});
