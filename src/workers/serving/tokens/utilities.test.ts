import { expect, test } from "bun:test";
import type { Served } from "../request.ts";
import { detokenize } from "./utilities.ts";

/** Each token is a byte. */
const engine = {
  facts: { vocabSize: 256 },
  detokenize: (tokens: Int32Array) => new TextDecoder().decode(Uint8Array.from(tokens)),
};

async function piecesOf(text: string | number[]) {
  const tokens = typeof text === "string" ? [...Buffer.from(text)] : text;
  const answer = await detokenize({ engine } as unknown as Served, { tokens, with_pieces: true });
  return (await answer.json()) as { content: string; pieces: string[] };
}

test("each token has its text, and a character that tokens share is in the last of them", async () => {
  expect(await piecesOf("aé🙂b")).toEqual({ content: "aé🙂b", pieces: ["a", "", "é", "", "", "", "🙂", "b"] });
  expect(await piecesOf("")).toEqual({ content: "", pieces: [] });
});

test("bytes that are no character are marks, and what follows keeps its place", async () => {
  const { pieces } = await piecesOf([0xff, 0xff, 0xff, 0xff, 0x61, 0xc3]);
  expect(pieces).toHaveLength(6);
  expect(pieces.slice(0, 4).join("")).toBe("\uFFFD".repeat(4));
  expect(pieces.slice(4)).toEqual(["a", "\uFFFD"]);
});
