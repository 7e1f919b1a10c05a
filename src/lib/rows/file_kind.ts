/** Recognizes the kind of a file of rows by its name and its first bytes. */

export const FILE_KINDS = ["jsonl", "json", "csv", "tsv", "parquet"] as const;
export type FileKind = (typeof FILE_KINDS)[number];

const EXTENSIONS: Readonly<Record<string, FileKind>> = {
  jsonl: "jsonl",
  ndjson: "jsonl",
  json: "jsonl",
  csv: "csv",
  tsv: "tsv",
  parquet: "parquet",
  pq: "parquet",
};

/** Returns the kind that the file name says, without a compression suffix. A file named .json may be one array. */
export function kindByName(name: string): FileKind | undefined {
  const plain = name.toLowerCase().replace(/\.(gz|gzip|zst|zstd)$/, "");
  return EXTENSIONS[/\.([a-z]+)$/.exec(plain)?.[1] ?? ""];
}

const MAGIC: readonly (readonly [name: string, magic: readonly number[]])[] = [
  ["a Parquet file", [0x50, 0x41, 0x52, 0x31]],
  ["a gzip archive", [0x1f, 0x8b]],
  ["a zip archive", [0x50, 0x4b, 0x03, 0x04]],
  ["compressed with zstd", [0x28, 0xb5, 0x2f, 0xfd]],
  ["compressed with bzip2", [0x42, 0x5a, 0x68]],
  ["compressed with xz", [0xfd, 0x37, 0x7a, 0x58, 0x5a]],
];
export const LOOKED_AT_BYTES = 4_096;
const COLUMN = /^"?[\w .-]{1,40}"?$/;

/** The beginning of a file as text, without a byte order mark. */
const beginning = (start: Uint8Array) =>
  new TextDecoder().decode(start.subarray(0, LOOKED_AT_BYTES)).replace(/^\ufeff/, "");
const magicOf = (start: Uint8Array) => MAGIC.find(([, magic]) => magic.every((byte, i) => start[i] === byte))?.[0];

/** Returns the kind of text by its beginning, or undefined if it does not tell. The name decides about CSV and TSV. */
export function textKind(start: Uint8Array, name: string): Exclude<FileKind, "parquet"> | undefined {
  const named = kindByName(name);
  if (named === "csv" || named === "tsv") return named;
  const text = beginning(start).trimStart();
  if (/^\[\s*[{\]]/.test(text) || /^\{\s*\n/.test(text)) return "json";
  if (text === "" || text.startsWith("{") || text.startsWith("[")) return "jsonl";
  const header = headerOf(text);
  return header === undefined ? undefined : header.delimiter === "\t" ? "tsv" : "csv";
}

/** True for plain JSON lines, the only kind that is read as it arrives. */
export const isJsonLines = (start: Uint8Array, name: string): boolean =>
  magicOf(start) === undefined && kindByName(name) !== "parquet" && (textKind(start, name) ?? "jsonl") === "jsonl";

/** The character between the cells, by the first line: spreadsheets of some languages write semicolons. */
export function delimiterOf(kind: "csv" | "tsv", start: Uint8Array): string {
  if (kind === "tsv") return "\t";
  const text = beginning(start);
  const line = text.slice(0, text.search(/[\r\n]|$/));
  return [",", ";", "\t"].find((each) => line.includes(each)) ?? ",";
}

function headerOf(text: string): { columns: string[]; delimiter: string } | undefined {
  const line = text.slice(0, text.search(/\r?\n|$/));
  const delimiter = [",", "\t", ";"].find((each) => line.includes(each));
  if (delimiter === undefined) return undefined;
  const columns = line.split(delimiter).map((each) => each.trim());
  return columns.length > 1 && columns.every((each) => COLUMN.test(each))
    ? { columns: columns.map((each) => each.replaceAll('"', "")), delimiter }
    : undefined;
}

const TO_LINES = "convert it to JSON lines, one object per line, or upload it as a new dataset";
const MOST_COLUMNS = 8; // shown in the message

/** For routes that take only JSON lines: what is wrong with the file as a whole, or undefined. */
export function fileFault(start: Uint8Array): string | undefined {
  const packed = magicOf(start);
  if (packed !== undefined) return `the file is ${packed}: ${TO_LINES}`;
  const text = beginning(start).trimStart();
  if (/^\[\s*\{/.test(text))
    return "the file is one JSON array: write its objects one per line, for example with jq -c '.[]' FILE";
  if (/^\{\s*\n/.test(text))
    return "the file is JSON with line breaks inside an object: write each object on one line, for example with jq -c . FILE";
  const header = headerOf(text);
  if (!header) return undefined;
  const shown = header.columns.slice(0, MOST_COLUMNS).join(", ");
  return `the file looks like CSV with the columns ${shown}: ${TO_LINES}`;
}
