/** Splits a text into chunks that overlap. Positions count UTF-16 code units, and lie between characters. Pure. */

/** A token of a text counts as so many characters. */
export const TOKEN_CHARACTERS = 4;

/** From the best place to end a chunk to the worst. */
const BREAKS = ["\n\n", "\n", ". ", " "];

/** The end of the chunk that begins at `from`: behind a paragraph, a line, a sentence or a word of its second half. */
export function endOfChunk(text: string, from: number, size: number): number {
  const limit = from + Math.max(2, size);
  if (limit >= text.length) return text.length;
  const least = from + Math.ceil(Math.max(2, size) / 2);
  const window = text.slice(from, limit); // a search of the whole text would read it to its begin
  for (const mark of BREAKS) {
    const at = window.lastIndexOf(mark);
    if (at >= 0 && from + at + mark.length >= least) return from + at + mark.length;
  }
  return isInside(text, limit) ? limit - 1 : limit;
}

/** The begin of the chunk behind `from` … `end`, which is always further on. */
export function startAfter(text: string, from: number, end: number, overlap: number): number {
  if (end >= text.length) return text.length;
  const start = Math.max(from + 1, end - overlap);
  return isInside(text, start) ? start + 1 : start;
}

/** True between the two halves of a character. */
const isInside = (text: string, at: number) => (text.charCodeAt(at) & 0xfc00) === 0xdc00;
