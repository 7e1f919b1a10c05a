import { expect, test } from "bun:test";
import { randomFor } from "../../../../test/sweep.ts";
import { endOfChunk, startAfter } from "./chunks.ts";

function chunksOf(text: string, size: number, overlap: number): [from: number, end: number][] {
  const all: [number, number][] = [];
  for (let from = 0; from < text.length; ) {
    const end = endOfChunk(text, from, size);
    all.push([from, end]);
    from = startAfter(text, from, end, overlap);
  }
  return all;
}
const textsOf = (text: string, size: number, overlap: number) =>
  chunksOf(text, size, overlap).map(([from, end]) => text.slice(from, end));

test.each([
  ["", []],
  ["short", ["short"]],
  ["one two three four", ["one two ", "three four"]],
  ["a line\nwith another", ["a line\n", "with ", "another"]],
  ["wordwithoutends", ["wordwithou", "tends"]],
])("%j is split behind lines and words", (text, chunks) => expect(textsOf(text, 10, 0)).toEqual(chunks));

test("chunks overlap", () => expect(textsOf("abcdefghij", 4, 2)).toEqual(["abcd", "cdef", "efgh", "ghij"]));

test("every chunk is within the size, and all characters are in one, whole", () => {
  const random = randomFor("chunks");
  const letters = ["a", "é", "😀", " ", "\n", ". ", "\n\n"];
  for (let i = 0; i < 500; i++) {
    const length = Math.floor(random() * 200);
    const text = Array.from({ length }, () => letters[Math.floor(random() * letters.length)]).join("");
    const size = 2 + Math.floor(random() * 30);
    const overlap = Math.floor((random() * size) / 2);
    let covered = 0;
    for (const [from, end] of chunksOf(text, size, overlap)) {
      expect(from).toBeLessThanOrEqual(covered);
      expect(end - from).toBeLessThanOrEqual(size);
      expect(text.slice(from, end).isWellFormed()).toBe(true);
      covered = end;
    }
    expect(covered).toBe(text.length);
  }
});
