import { describe, expect, test } from "bun:test";
import { TextOut } from "./text.ts";

const bytesOf = (text: string) => new TextEncoder().encode(text);
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const textOf = (bytes: Uint8Array) => {
  try {
    return strict.decode(bytes);
  } catch {
    return null;
  }
};

/** Pushes the pieces until the text stops, and returns the output piece by piece. */
function play(pieces: readonly Uint8Array[], stops: readonly string[]) {
  const out = new TextOut(stops);
  const parts: string[] = [];
  for (const piece of pieces) {
    const { text, stop, tokens } = out.push(piece, textOf(piece));
    parts.push(text);
    if (stop !== undefined) return { parts, text: parts.join(""), stop, tokens };
  }
  const { text, stop, tokens } = out.finish();
  parts.push(text);
  return { parts, text: parts.join(""), stop, tokens };
}

const words = (...pieces: string[]) => pieces.map(bytesOf);

describe("text", () => {
  test("without stop strings all text is emitted at once", () => {
    expect(play(words("a", "", "bc"), []).parts).toEqual(["a", "", "bc", ""]);
  });
  test("a stop string inside one piece, at a border, and across three", () => {
    expect(play(words("one END two"), ["END"])).toMatchObject({ text: "one ", stop: "END", tokens: 1 });
    expect(play(words("one ", "END", "two"), ["END"])).toMatchObject({ text: "one ", stop: "END", tokens: 1 });
    expect(play(words("one E", "N", "D two"), ["END"])).toMatchObject({ text: "one ", stop: "END", tokens: 1 });
  });
  test("text that only resembled a stop string is emitted, at the latest at the end", () => {
    expect(play(words("a E", "N", "x"), ["END"])).toMatchObject({ parts: ["a ", "", "ENx", ""], tokens: 3 });
    expect(play(words("a EN"), ["END"])).toMatchObject({ parts: ["a ", "EN"], stop: undefined, tokens: 1 });
  });
  test("the earliest of several stop strings wins, and one that begins inside another is found", () => {
    expect(play(words("xxabcyy"), ["yy", "bc"])).toMatchObject({ text: "xxa", stop: "bc" });
    expect(play(words("aa", "b"), ["aab"]).text).toBe("");
    expect(play(words("aaa", "b"), ["aab"]).text).toBe("a");
  });
  test("a byte order mark is text", () => {
    expect(play(words("\ufeffx"), []).text).toBe("\ufeffx");
    expect(play([Uint8Array.of(0xef), Uint8Array.of(0xbb, 0xbf)], []).text).toBe("\ufeff");
  });
  test("bytes that are no characters become U+FFFD, and a character that is cut off at the end is dropped", () => {
    expect(play([Uint8Array.of(0x61, 0xff), Uint8Array.of(0x62)], []).text).toBe("a\ufffdb");
    expect(play([Uint8Array.of(0x61, 0xf0, 0x9f)], []).parts).toEqual(["a", ""]);
    expect(play([Uint8Array.of(0xc3), bytesOf("x")], []).text).toBe("\ufffdx");
  });
});

/** Small alphabets make stops and broken characters frequent. */
function random(seed: number) {
  let state = seed * 2654435761;
  return (below: number) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) >>> 0;
    return (state >>> 8) % below;
  };
}

test("every division of a text into pieces gives the same text, whole characters and no stop string", () => {
  const alphabet = ["a", "b", "ab", "é", "⚓", "🙂", "🙃", "\u200d"];
  for (let seed = 1; seed <= 3000; seed++) {
    const draw = random(seed);
    const some = (most: number) =>
      Array.from({ length: 1 + draw(most) }, () => alphabet[draw(alphabet.length)]).join("");
    const source = some(14);
    const stops = Array.from({ length: draw(3) }, () => some(3));
    const bytes = bytesOf(source);
    const pieces: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; ) {
      const size = draw(4);
      pieces.push(bytes.slice(at, at + size));
      at += size;
    }
    const { text, parts } = play(pieces, stops);
    const found = stops.map((stop) => source.indexOf(stop)).filter((at) => at >= 0);
    const shown = found.length === 0 ? source : source.slice(0, Math.min(...found));
    expect({ seed, text }).toEqual({ seed, text: shown });
    for (const part of parts) expect(part.isWellFormed() && !part.includes("\ufffd")).toBe(true);
  }
});
