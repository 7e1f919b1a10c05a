import { expect, test } from "bun:test";
import { membersOf } from "./members.ts";

async function* inPieces(text: string, size: number) {
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function cut(text: string, size: number, limit = 1000) {
  const members: string[] = [];
  const reader = membersOf(inPieces(text, size), "rows", limit);
  for (;;) {
    const { done, value } = await reader.next();
    if (done) return { members, rest: value };
    members.push(...value);
  }
}

const TRICKY = {
  kind: 'a "rows":[ that is none',
  before: { rows: [1, 2], list: [[], {}] },
  rows: [["a,b", null, "]"], { f: [{ v: '"\\"' }, { v: [1, { rows: [3] }] }] }, "ü🙂\\", 12.5, [], {}, true],
  after: ["rows", { rows: "[" }],
  pageToken: "x]",
};

test.each([1, 2, 3, 7, 64, 10_000])("in pieces of %d bytes the members stay the same", async (size) => {
  for (const text of [JSON.stringify(TRICKY), JSON.stringify(TRICKY, null, 2)]) {
    const { members, rest } = await cut(text, size);
    expect(members.map((member) => JSON.parse(member))).toEqual(TRICKY.rows);
    expect(rest).toEqual({ ...TRICKY, rows: [] });
  }
});

test("an empty list, a missing one and one that is null have no members", async () => {
  expect(await cut('{"rows": [ ] }', 1)).toEqual({ members: [], rest: { rows: [] } });
  expect(await cut('{"a": 1}', 1)).toEqual({ members: [], rest: { a: 1 } });
  expect(await cut('{"rows": null}', 1)).toEqual({ members: [], rest: { rows: null } });
});

test("digits stay unchanged", async () => {
  const { members } = await cut('{"rows":[ 12345678901234567890.10 , 1e400 ]}', 3);
  expect(members).toEqual(["12345678901234567890.10", "1e400"]);
});

test("an answer that ends too soon is refused", async () => {
  expect(cut('{"rows":[["a"],["b"', 4)).rejects.toThrow();
  expect(cut("<html>", 4)).rejects.toThrow();
});

test("a member without end is refused, not collected", async () => {
  async function* endless() {
    yield new TextEncoder().encode('{"rows":[["');
    for (;;) yield new Uint8Array(1000).fill(120);
  }
  const reader = membersOf(endless(), "rows", 50_000);
  expect(reader.next()).rejects.toThrow("maximum length of a row");
});
