/** The cipher of blocks of prompts against the vectors of draft-irtf-cfrg-aegis-aead, by each way that this processor has. */
import { dlopen } from "bun:ffi";
import { afterAll, expect, test } from "bun:test";
import { resolve } from "node:path";
import { openShim } from "../../src/native/shim/shim.ts";
import { tempDir } from "../harness.ts";
import { randomFor } from "../sweep.ts";

openShim(tempDir()); // says what to do if it is not built
const P = "ptr";
const { symbols: shim } = dlopen(resolve(import.meta.dir, "../../.stage/shim/verk-shim.so"), {
  verk_aegis: { args: [P, P, P, "u64", P, "u64", P, P, "bool"], returns: "void" },
  verk_use_cipher: { args: ["i32"], returns: "i32" },
});
afterAll(() => shim.verk_use_cipher(0));
const ways = Array.from({ length: shim.verk_use_cipher(0) }, (_, i) => i);

type Input = { key: Uint8Array; nonce: Uint8Array; about: Uint8Array };
function run({ key, nonce, about }: Input, from: Uint8Array, isSealing: boolean) {
  const room = (length: number) => new Uint8Array(Math.max(length, 1)); // an empty array has no address
  const [into, tag, content, more] = [room(from.length), room(32), room(from.length), room(about.length)];
  content.set(from);
  more.set(about);
  shim.verk_aegis(key, nonce, more, about.length, content, from.length, into, tag, isSealing);
  return { text: into.subarray(0, from.length), tag };
}
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");
const counting = (from: number) => Uint8Array.from({ length: 16 }, (_, i) => from + i);
const vector = { key: counting(0), nonce: counting(16) };

test.each(ways)("way %p gives the bytes of the draft", (way) => {
  shim.verk_use_cipher(way);
  const empty = run({ ...vector, about: new Uint8Array(0) }, new Uint8Array(0), true);
  expect(hex(empty.tag)).toBe("b92c71fdbd358b8a4de70b27631ace90cffd9b9cfba82028412bac41b4f53759");
  const about = Uint8Array.from([1, 2, 3, 4, 1, 2, 3, 4]);
  const plain = Uint8Array.from({ length: 120 }, (_, i) => 4 + (i % 4));
  const sealed = run({ ...vector, about }, plain, true);
  expect(hex(sealed.text)).toStartWith(
    "5795544301997f93621b278809d6331b3bfa6f18e90db12c4aa35965b5e98c5fc6fb4e54bcb6111842c20637252eff74" +
      "7cb3a8f85b37de80919a589fe0f24872bc926360696739e05520647e390989e1eb5fd42f99678a0276a498f8c454761c" +
      "9d6aacb647ad56be62b29c22cd4b5761b38f43d5a5ee062",
  );
  expect(hex(sealed.tag)).toBe("c471876f9b4978c44f2ae1ce770cdb11a094ee3feca64e7afcd48bfe52c60eca");
  const opened = run({ ...vector, about }, sealed.text, false);
  expect([hex(opened.text), hex(opened.tag)]).toEqual([hex(plain), hex(sealed.tag)]);
});

test("all ways agree on random lengths, and what one seals another opens", () => {
  const random = randomFor("aegis");
  const noise = (length: number) => Uint8Array.from({ length }, () => Math.floor(random() * 256));
  for (let i = 0; i < 200; i++) {
    const input = { key: noise(16), nonce: noise(16), about: noise(Math.floor(random() * 129)) };
    const plain = noise(Math.floor(random() * 700));
    const results = ways.map((way) => {
      shim.verk_use_cipher(way);
      return run(input, plain, true);
    });
    for (const [at, { text, tag }] of results.entries()) {
      shim.verk_use_cipher(ways[(at + 1) % ways.length]!);
      const opened = run(input, text, false);
      expect([hex(text), hex(opened.text), hex(opened.tag)]).toEqual([hex(results[0]!.text), hex(plain), hex(tag)]);
    }
  }
});
