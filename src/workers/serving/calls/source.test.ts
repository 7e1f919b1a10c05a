import { expect, test } from "bun:test";
import { firstOf, head, literally, type Reading, Source, settled, skip } from "./source.ts";

/** Gives the text in pieces of every length. Each time the reader must return the same and leave the same. */
function everySplit<T>(text: string, read: (source: Source) => Reading<T>): { value: T; rest: string } {
  const results = Array.from({ length: text.length + 1 }, (_, i) => i + 1).map((size) => {
    const source = new Source();
    const reading = read(source);
    let step = reading.next();
    for (let at = 0; at < text.length || !source.ended; at += size) {
      source.held += text.slice(at, at + size);
      source.ended = at + size >= text.length;
      if (!step.done) step = reading.next();
    }
    if (!step.done) throw new Error("the reader still waits at the end");
    return { value: step.value, rest: source.held };
  });
  for (const result of results) expect(result).toEqual(results[0] as (typeof results)[number]);
  return results[0] as (typeof results)[number];
}

test("a literal is consumed as a whole, or nothing of it", () => {
  const read = (source: Source) => literally(source, "[TOOL]");
  expect(everySplit("[TOOL]x", read)).toEqual({ value: true, rest: "x" });
  expect(everySplit("[TOO", read)).toEqual({ value: false, rest: "[TOO" });
  expect(everySplit("[TAIL]", read)).toEqual({ value: false, rest: "[TAIL]" });
});

test("blanks are skipped", () => {
  expect(everySplit(" \n\t x ", (source) => skip(source))).toEqual({ value: undefined, rest: "x " });
  expect(everySplit("  ", (source) => skip(source))).toEqual({ value: undefined, rest: "" });
  expect(everySplit(",,a", (source) => skip(source, /^,+/))).toEqual({ value: undefined, rest: "a" });
});

test("a head ends at the first marker; a brace stays", () => {
  const read = (source: Source) => head(source, ["{", "<args>"]);
  expect(everySplit('name{"a"', read)).toEqual({ value: { text: "name", marker: "{" }, rest: '{"a"' });
  expect(everySplit("name<args>{", read)).toEqual({ value: { text: "name", marker: "<args>" }, rest: "{" });
  expect(everySplit("name", read)).toEqual({ value: undefined, rest: "name" });
});

test("a head has at most 512 characters, and no more than that are waited for", () => {
  const read = (source: Source) => head(source, ["{", "<args>"]);
  const name = "n".repeat(512);
  expect(everySplit(`${name}<args>`, read).value).toEqual({ text: name, marker: "<args>" });
  expect(everySplit(`${name}n<args>`, read)).toEqual({ value: undefined, rest: `${name}n<args>` });
  const source = new Source();
  source.held = "n".repeat(512 + "<args>".length);
  const reading = read(source);
  expect(reading.next().done).toBe(false);
  source.held += "n";
  expect(reading.next()).toEqual({ done: true, value: undefined });
});

test("the earliest marker, and how much is certainly before any", () => {
  expect(firstOf("a{b<", ["<", "{"])).toEqual({ at: 1, marker: "{" });
  expect(firstOf("ab", ["<"])).toBeUndefined();
  expect([settled("ab<t", ["<tool>"]), settled("ab<x", ["<tool>"]), settled("ab<tool>", ["<tool>"])]).toEqual([
    2, 4, 8,
  ]);
  expect(settled("ab[<", ["<tool>", "[<x"])).toBe(2);
});

test("what was taken since the mark is known", () => {
  const source = new Source();
  source.held = "abcdef";
  source.take(2);
  source.mark();
  expect([source.take(2), source.take(1), source.sinceMark, source.held]).toEqual(["cd", "e", "cde", "f"]);
});
