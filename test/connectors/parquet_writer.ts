/** Parquet as other writers make it, and invalid Parquet: the test sets pages, levels and claims. */

type Thrift = number | bigint | boolean | string | Uint8Array | Thrift[] | Struct;
/** Field number → value. A number is an i32, a bigint an i64. */
type Struct = Map<number, Thrift>;
const struct = (fields: Record<number, Thrift | undefined>): Struct =>
  new Map(Object.entries(fields).flatMap(([id, value]) => (value === undefined ? [] : [[Number(id), value] as const])));

const TYPES = ["BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"] as const;
export type Type = (typeof TYPES)[number];
const REPETITIONS = { required: 0, optional: 1, repeated: 2 };
const ENCODINGS = { PLAIN: 0, RLE: 3, DELTA_BYTE_ARRAY: 7, RLE_DICTIONARY: 8 };

export type Element = {
  name: string;
  type?: Type;
  repetition?: keyof typeof REPETITIONS;
  children?: number;
  /** Converted type: 0 = UTF8, 1 = MAP, 3 = LIST. */
  converted?: number;
  width?: number;
};
export type Page = {
  version?: 1 | 2;
  reps?: number[];
  defs?: number[];
  count: number;
  rows?: number;
  values: Uint8Array;
  encoding?: keyof typeof ENCODINGS;
  /** False values to write instead of the true ones. */
  claims?: { count?: number; packed?: number; unpacked?: number; reps?: number; defs?: number };
  /** Number of values of a dictionary. */
  dictionary?: number;
};
export type Leaf = {
  type: Type;
  path: readonly string[];
  maxRep: number;
  maxDef: number;
  pages: readonly Page[];
  values?: number;
  /** The compression that the column claims, by its number in the format. Pages are written as they are. */
  codec?: number;
};
export type Group = { rows: number; leaves: Leaf[] };

export function writeParquet(schema: Element[], groups: Group[]): Uint8Array {
  const parts: Uint8Array[] = [Buffer.from("PAR1")];
  let at = 4;
  const rowGroups = groups.map(({ rows, leaves }) => {
    const columns = leaves.map((leaf) => {
      const from = at;
      for (const page of leaf.pages.map((each) => pageBytes(each, leaf))) {
        parts.push(page);
        at += page.byteLength;
      }
      const values = leaf.values ?? leaf.pages.reduce((sum, page) => sum + (page.dictionary ? 0 : page.count), 0);
      const size = BigInt(at - from);
      const meta = struct({
        1: TYPES.indexOf(leaf.type),
        2: [0],
        3: [...leaf.path],
        4: leaf.codec ?? 0,
        5: BigInt(values),
        6: size,
        7: size,
        9: BigInt(from),
      });
      return struct({ 2: BigInt(from), 3: meta });
    });
    return struct({ 1: columns, 2: 0n, 3: BigInt(rows) });
  });
  const total = groups.reduce((sum, { rows }) => sum + rows, 0);
  const footer = thrift(struct({ 1: 1, 2: schema.map(element), 3: BigInt(total), 4: rowGroups }));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(footer.byteLength);
  return Buffer.concat([...parts, footer, length, Buffer.from("PAR1")]);
}

/** `{id, text}` of every row, in row groups of `groupRows` and pages of `pageRows`. */
export function rowsAsParquet(texts: readonly string[], { groupRows = 1000, pageRows = 100 } = {}): Uint8Array {
  const groups: Group[] = [];
  for (let from = 0; from < texts.length; from += groupRows) {
    const mine = texts.slice(from, from + groupRows).map((text, i) => ({ id: BigInt(from + i), text }));
    const pages = <T>(pick: (row: { id: bigint; text: string }) => T, write: (values: T[]) => Uint8Array): Page[] =>
      Array.from({ length: Math.ceil(mine.length / pageRows) }, (_, page) => {
        const rows = mine.slice(page * pageRows, (page + 1) * pageRows);
        return { count: rows.length, values: write(rows.map(pick)) };
      });
    const flat = { maxRep: 0, maxDef: 0 };
    groups.push({
      rows: mine.length,
      leaves: [
        { type: "INT64", path: ["id"], ...flat, pages: pages(({ id }) => id, plainLongs) },
        { type: "BYTE_ARRAY", path: ["text"], ...flat, pages: pages(({ text }) => text, plainTexts) },
      ],
    });
  }
  const schema: Element[] = [
    { name: "root", children: 2 },
    { name: "id", type: "INT64" },
    { name: "text", type: "BYTE_ARRAY", converted: 0 },
  ];
  return writeParquet(schema, groups);
}

export const plainLongs = (values: bigint[]) => new Uint8Array(BigInt64Array.from(values).buffer);

export function plainTexts(values: (string | Uint8Array)[]): Uint8Array {
  return Buffer.concat(
    values.flatMap((value) => {
      const bytes = Buffer.from(value as string);
      const length = Buffer.alloc(4);
      length.writeUInt32LE(bytes.byteLength);
      return [length, bytes];
    }),
  );
}

/** One run per value. */
export const runs = (values: readonly number[], width: number): Uint8Array =>
  width === 0
    ? new Uint8Array(0)
    : Buffer.concat(values.flatMap((value) => [varint(2n), Buffer.from([value]).subarray(0, Math.ceil(width / 8))]));

const widthOf = (most: number) => 32 - Math.clz32(most);

function pageBytes(page: Page, { maxRep, maxDef }: Leaf): Uint8Array {
  const { version = 1, count, values, claims = {}, encoding = "PLAIN" } = page;
  const reps = runs(page.reps ?? [], widthOf(maxRep));
  const defs = runs(page.defs ?? [], widthOf(maxDef));
  const told = claims.count ?? count;
  const code = ENCODINGS[encoding];
  const isDictionary = page.dictionary !== undefined;
  const levels = isDictionary
    ? []
    : version === 2
      ? [reps, defs]
      : [...counted(reps, maxRep), ...counted(defs, maxDef)];
  const body = Buffer.concat([...levels, values]);
  const nulls = (page.defs ?? []).filter((def) => def < maxDef).length;
  const header = struct({
    1: isDictionary ? 2 : version === 2 ? 3 : 0,
    2: claims.unpacked ?? body.byteLength,
    3: claims.packed ?? body.byteLength,
    5: isDictionary || version === 2 ? undefined : struct({ 1: told, 2: code, 3: ENCODINGS.RLE, 4: ENCODINGS.RLE }),
    7: isDictionary ? struct({ 1: page.dictionary ?? 0, 2: ENCODINGS.PLAIN }) : undefined,
    8:
      isDictionary || version === 1
        ? undefined
        : struct({
            1: told,
            2: nulls,
            3: page.rows ?? told,
            4: code,
            5: claims.defs ?? defs.byteLength,
            6: claims.reps ?? reps.byteLength,
            7: false,
          }),
  });
  return Buffer.concat([thrift(header), body]);
}

function counted(levels: Uint8Array, most: number): Uint8Array[] {
  if (most === 0) return [];
  const length = Buffer.alloc(4);
  length.writeUInt32LE(levels.byteLength);
  return [length, levels];
}

const element = ({ name, type, repetition = "required", children, converted, width }: Element) =>
  struct({
    1: type === undefined ? undefined : TYPES.indexOf(type),
    2: width,
    3: REPETITIONS[repetition],
    4: name,
    5: children,
    6: converted,
  });

function thrift(fields: Struct): Uint8Array {
  const parts: Uint8Array[] = [];
  let last = 0;
  for (const [id, value] of [...fields].sort(([a], [b]) => a - b)) {
    parts.push(Buffer.from([((id - last) << 4) | (value === true ? 1 : value === false ? 2 : typeOf(value))]));
    last = id;
    if (typeof value !== "boolean") parts.push(valueBytes(value));
  }
  return Buffer.concat([...parts, Buffer.from([0])]);
}

function typeOf(value: Thrift): number {
  if (typeof value === "number") return 5;
  if (typeof value === "bigint") return 6;
  if (typeof value === "string" || value instanceof Uint8Array) return 8;
  return Array.isArray(value) ? 9 : 12;
}

function valueBytes(value: Thrift): Uint8Array {
  if (typeof value === "number" || typeof value === "bigint") return varint(zigzag(BigInt(value)));
  if (typeof value === "string" || value instanceof Uint8Array) {
    const bytes = Buffer.from(value as string);
    return Buffer.concat([varint(BigInt(bytes.byteLength)), bytes]);
  }
  if (Array.isArray(value)) {
    const head = Buffer.concat([Buffer.from([0xf0 | typeOf(value[0] ?? 0)]), varint(BigInt(value.length))]);
    return Buffer.concat([head, ...value.map(valueBytes)]);
  }
  return thrift(value as Struct);
}

const zigzag = (value: bigint) => (value < 0n ? -2n * value - 1n : 2n * value);

export function varint(value: bigint): Uint8Array {
  const out: number[] = [];
  let rest = value;
  do {
    out.push(Number(rest & 0x7fn) | (rest > 0x7fn ? 0x80 : 0));
    rest >>= 7n;
  } while (rest > 0n);
  return Buffer.from(out);
}
