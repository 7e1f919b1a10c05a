import { expect, test } from "bun:test";
import { tempDir } from "../../../../../test/harness.ts";
import { randomFor, sweep } from "../../../../../test/sweep.ts";
import { openShim } from "../../../../native/shim/shim.ts";
import * as block from "./block.ts";
import { BLOCK, type BlockKeys, keysOf, namesOf, rootOf } from "./block.ts";
import { cutBlock, partsOf, readState, StateWriter } from "./state.ts";

const random = randomFor("prefix blocks");
const int = (most: number) => Math.floor(random() * most);
const noise = (length: number) => Uint8Array.from({ length }, () => int(256));
const keys = keysOf(noise(32));
const others = keysOf(noise(32));
const shim = openShim(tempDir());
const sealBlock = (by: BlockKeys, name: string, plain: Uint8Array) => block.sealBlock(shim, by, name, plain);
const openBlock = (by: BlockKeys, name: string, sealed: Uint8Array) => block.openBlock(shim, by, name, sealed);

/** The state of a sequence as the library writes it, with positions in any order. */
function stateOf({
  magic,
  sequence,
  streams,
  length,
  shapes,
}: {
  magic: number;
  sequence: number;
  streams: number;
  length: number;
  shapes: readonly (readonly number[])[];
}) {
  const words: number[] = [magic, sequence];
  const pieces: Uint8Array[] = [];
  const flush = () => pieces.push(new Uint8Array(Uint32Array.from(words.splice(0)).buffer));
  for (const rows of shapes) {
    words.push(streams);
    for (let stream = 0; stream < streams; stream++) {
      const isOwn = stream === (streams === 1 ? 0 : sequence);
      words.push(isOwn ? length : 0);
      if (!isOwn) continue;
      for (let position = 0; position < length; position++) words.push(position, 1, sequence);
      words.push(0, rows.length / 2);
      for (const row of rows) {
        words.push(1, row, 0);
        flush();
        pieces.push(noise(row * length));
      }
    }
    flush();
  }
  return new Uint8Array(Buffer.concat(pieces));
}

test("a state that is cut into blocks and put together is the same", () => {
  const shapes = [
    [8, 12, 4, 8],
    [16, 16],
  ];
  const target = { magic: 7, sequence: 2, streams: 3 };
  const length = 3 * BLOCK;
  const bytes = stateOf({ ...target, length, shapes });
  const state = readState(bytes, length)!;
  const parts = [0, 1, 2].map((i) => partsOf(cutBlock(state, i))!);
  const writer = new StateWriter(parts[0]!.shape, 3, target);
  for (const [i, { rows }] of parts.entries()) writer.add(i, rows);
  expect(Buffer.compare(writer.bytes, bytes)).toBe(0);
});

test("a state with other positions, of another form, or cut is not read", () => {
  const one = { magic: 7, sequence: 0, streams: 1, shapes: [[8, 8]] };
  const bytes = stateOf({ ...one, length: BLOCK });
  expect(readState(bytes, BLOCK)).not.toBeNull();
  expect(readState(bytes, BLOCK - 1)).toBeNull();
  for (const length of [0, 7, 8, 20, bytes.length - 1]) expect(readState(bytes.subarray(0, length), BLOCK)).toBeNull();
  const twice = bytes.slice();
  new DataView(twice.buffer).setInt32(16 + 12, 0, true); // two cells with the first position
  expect(readState(twice, BLOCK)).toBeNull();
  const turned = bytes.slice();
  new DataView(turned.buffer).setUint32(16 + 12 * BLOCK, 1, true);
  expect(readState(turned, BLOCK)).toBeNull();
});

test("the name of a block depends on all tokens up to its end, on the key and on what computed it", () => {
  const tokens = Int32Array.from({ length: 3 * BLOCK }, () => int(1000));
  const names = namesOf(keys, rootOf(keys, "m"), tokens, 3);
  expect(namesOf(keys, rootOf(keys, "m"), tokens.slice(0, 2 * BLOCK), 2)).toEqual(names.slice(0, 2));
  for (const [root, by] of [
    ["n", keys],
    ["m", others],
  ] as const)
    expect(namesOf(by, rootOf(by, root), tokens, 3).some((name) => names.includes(name))).toBe(false);
  const changed = tokens.slice();
  changed[int(BLOCK)]! += 1;
  expect(namesOf(keys, rootOf(keys, "m"), changed, 3).some((name) => names.includes(name))).toBe(false);
});

const DAMAGED = sweep({ quick: 5_000, full: 100_000 });

test("no damaged, cut, foreign, swapped or invented block opens, and none of them throws", () => {
  const tokens = Int32Array.from({ length: 8 * BLOCK }, () => int(1000));
  const names = namesOf(keys, rootOf(keys, "m"), tokens, 8);
  const contents = names.map(() => noise(200 + int(200)));
  const sealed = names.map((name, i) => sealBlock(keys, name, contents[i]!));
  let opened = 0;
  for (let i = 0; i < DAMAGED; i++) {
    const at = int(8);
    const other = (at + 1 + int(7)) % 8;
    const bytes = Uint8Array.from(sealed[at]!);
    const kind = i % 6;
    if (kind === 0) bytes[int(bytes.length)]! ^= 1 << int(8);
    const made = [
      bytes,
      bytes.subarray(0, int(bytes.length)),
      sealBlock(others, names[at]!, contents[at]!),
      sealed[other]!,
      noise(int(500)),
      Buffer.concat([bytes, noise(1 + int(20))]),
    ][kind]!;
    if (openBlock(keys, names[at]!, made) !== null) opened++;
    expect(partsOf(made)).toBeNull();
  }
  expect(opened).toBe(0);
  for (const [i, name] of names.entries()) expect(openBlock(keys, name, sealed[i]!)).toEqual(contents[i]!);
});

test("a content that opens but says nonsense of itself is not used", () => {
  const head = (text: string, rows = 0) => {
    const bytes = Buffer.from(text);
    const content = new Uint8Array(4 + bytes.length + rows);
    new DataView(content.buffer).setUint32(0, bytes.length, true);
    content.set(bytes, 4);
    return content;
  };
  for (const text of [
    "",
    "null",
    "[]",
    "[[]]",
    "[[[1,8]]]",
    '[[[1,"8"],[1,8]]]',
    "[[[1,-8],[1,8]]]",
    "[[[1,1e99],[1,8]]]",
    "{}",
    "[[[1,8],[1,8]]",
  ])
    expect(partsOf(head(text, 16 * BLOCK))).toBeNull();
  expect(partsOf(head("[[[1,8],[1,8]]]", 16 * BLOCK))).not.toBeNull();
  expect(partsOf(head("[[[1,8],[1,8]]]", 16 * BLOCK - 1))).toBeNull();
  for (let i = 0; i < 1_000; i++) expect(partsOf(noise(int(64)))).toBeNull();
});
