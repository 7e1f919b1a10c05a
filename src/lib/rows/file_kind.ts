/** Recognizes files that are not JSON lines by their first bytes, so that a rejection can name the format and the fix. */

const MAGIC: readonly (readonly [name: string, magic: readonly number[]])[] = [
  ["a Parquet file", [0x50, 0x41, 0x52, 0x31]],
  ["a gzip archive", [0x1f, 0x8b]],
  ["a zip archive", [0x50, 0x4b, 0x03, 0x04]],
  ["compressed with zstd", [0x28, 0xb5, 0x2f, 0xfd]],
];
const TO_LINES = "convert it to JSON lines, one object per line";
const LOOKED_AT_BYTES = 4_096;
const MOST_COLUMNS = 8; // shown in the message
const COLUMN = /^"?[\w .-]{1,40}"?$/;

/** Returns what is wrong with the file as a whole, or undefined. `start` is its beginning, without a byte order mark. */
export function fileFault(start: Uint8Array): string | undefined {
  const packed = MAGIC.find(([, magic]) => magic.every((byte, i) => start[i] === byte));
  if (packed) return `the file is ${packed[0]}: ${TO_LINES}`;
  const text = new TextDecoder().decode(start.subarray(0, LOOKED_AT_BYTES)).trimStart();
  if (/^\[\s*\{/.test(text))
    return "the file is one JSON array: write its objects one per line, for example with jq -c '.[]' FILE";
  if (/^\{\s*\n/.test(text))
    return "the file is JSON with line breaks inside an object: write each object on one line, for example with jq -c . FILE";
  const columns = columnsOf(text.slice(0, text.search(/\r?\n|$/)));
  if (!columns) return undefined;
  const shown = columns.slice(0, MOST_COLUMNS).join(", ");
  return `the file looks like CSV with the columns ${shown}: ${TO_LINES}, with the columns as field names`;
}

function columnsOf(line: string): string[] | undefined {
  const separator = [",", "\t", ";"].find((each) => line.includes(each));
  const columns = separator === undefined ? [] : line.split(separator).map((each) => each.trim());
  return columns.length > 1 && columns.every((each) => COLUMN.test(each))
    ? columns.map((each) => each.replaceAll('"', ""))
    : undefined;
}
