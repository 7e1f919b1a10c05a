import { badRows, exceeds, type FormatOptions, type Piece, type SourceFile, tooLong } from "./file.ts";
import { linesOf } from "./lines.ts";

/**
 * Reads one object per line and passes it on unchanged, without surrounding whitespace. The consumer of the rows parses
 * the JSON. Here a line must only look like an object, so that common mistakes get a clear message.
 */
export async function* jsonlRows(
  file: SourceFile,
  source: AsyncIterable<Uint8Array>,
  { rowBytes, from }: FormatOptions,
): AsyncGenerator<Piece> {
  const fromByte = from.byte ?? 0;
  let skip = from.byte === null ? from.row : 0;
  let row = from.row;
  let blank = 0;
  for await (const { lines, firstLine, endByte } of linesOf(file, source, { rowBytes, fromByte })) {
    const rows: string[] = [];
    for (let i = 0; i < lines.length; i++) {
      const text = lines[i]!.trim();
      blank = text === "" ? blank + lines[i]!.length + 1 : 0;
      if (blank > rowBytes) throw badRows(file, `only blank lines for ${blank} characters`);
      if (text === "") continue;
      const at = from.byte === null ? `line ${firstLine + i}` : `row ${row + rows.length + 1}`;
      if (exceeds(text, rowBytes)) throw tooLong(file, at, rowBytes);
      if (text[0] !== "{" || text.at(-1) !== "}") throw noObject(file, at, text);
      if (skip > 0) skip--;
      else rows.push(text);
    }
    row += rows.length;
    if (rows.length > 0) yield { lines: rows, place: { row, byte: endByte } };
  }
}

function noObject(file: SourceFile, at: string, text: string) {
  if (text[0] === "[")
    return badRows(file, `${at} begins a list. Write one JSON object per line, for example with: jq -c '.[]'`);
  if (text[0] === "{")
    return badRows(file, `${at} does not end its object. Write one JSON object per line, for example with: jq -c .`);
  return badRows(file, `${at} is not a JSON object`);
}
