import { expect, test } from "bun:test";
import { createTail } from "./tail.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

function tailOf(maxBytes: number, ...chunks: (string | Uint8Array)[]) {
  const tail = createTail(maxBytes);
  for (const chunk of chunks) tail.push(typeof chunk === "string" ? bytes(chunk) : chunk);
  return tail;
}

test.each([
  ["what fits is kept whole", 16, ["one ", "two"], "one two"],
  ["exactly full is kept whole", 7, ["one ", "two"], "one two"],
  ["only the last lines are kept", 12, ["first\n", "second\n", "third\n"], "third\n"],
  ["a chunk larger than the tail", 8, ["x".repeat(100), "\nend of it"], "of it"],
  ["one huge line starts at a whole word", 10, ["aaaa bbbbbbbbbbbb cc dd"], "cc dd"],
  ["one huge word is dropped, for it may be half a key", 8, ["a".repeat(50)], ""],
  ["nothing is nothing", 8, [], ""],
] as const)("%s", (_name, max, chunks, text) => expect(tailOf(max, ...chunks).text()).toBe(text));

test("every division of the same stream into chunks gives the same tail", () => {
  const all = bytes("zero\nα β γ\n終わり 🙂 done\n".repeat(3));
  const whole = tailOf(32, all).text();
  for (let size = 1; size < all.length; size++) {
    const tail = createTail(32);
    for (let at = 0; at < all.length; at += size) tail.push(all.subarray(at, at + size));
    expect(tail.text()).toBe(whole);
    expect(tail.total).toBe(all.length);
  }
});

test("the text is valid Unicode wherever the stream is cut, at both ends", () => {
  const all = bytes("é 漢 🙂 ".repeat(20));
  for (let end = 0; end < all.length; end++) {
    const text = tailOf(17, all.subarray(0, end)).text();
    expect(text.isWellFormed()).toBe(true);
    expect(text).not.toContain("\ufffd");
  }
});

test("bytes that are not text become replacement characters", () => {
  expect(tailOf(16, new Uint8Array([0x61, 0xff, 0xfe, 0x62])).text()).toBe("a\ufffd\ufffdb");
});
