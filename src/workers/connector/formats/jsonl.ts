import { badRows, exceeds, type FormatOptions, type Piece, type SourceFile, tooLong } from "./file.ts";
import { linesOf } from "./lines.ts";

/**
 * One object per line, passed on as it was written: only what surrounds it is cut off. Whether it is JSON is for those
 * who take the rows; here it must look like an object, so that the common mistakes are named.
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
      if (blank > rowBytes) throw badRows(file, `nothing but blank lines for ${blank} characters`);
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
    return badRows(file, `${at} begins a list. One JSON object per line is wanted: jq -c '.[]' makes that of it`);
  if (text[0] === "{")
    return badRows(file, `${at} does not end its object. One JSON object per line is wanted: jq -c . makes that of it`);
  return badRows(file, `${at} is no JSON object`);
}
