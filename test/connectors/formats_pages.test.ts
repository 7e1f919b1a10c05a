// tier: all (real databases and stores)
import { describe, expect, test } from "bun:test";
import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from "node:zlib";
import { aside } from "../aside/aside.ts";
import { randomFor } from "../sweep.ts";
import { faultOf, memoryFile, readAll } from "./formats_kit.ts";
import {
  type Element,
  type Page,
  plainLongs,
  plainTexts,
  rowsAsParquet,
  runs,
  varint,
  writeParquet,
} from "./parquet_writer.ts";

const fileOf = (schema: Element[], leaf: Parameters<typeof writeParquet>[1][number]["leaves"][number], rows: number) =>
  memoryFile("x.parquet", writeParquet(schema, [{ rows, leaves: [leaf] }]));

test("many pages and row groups, in spans that fit them", async () => {
  const texts = Array.from({ length: 2500 }, (_, i) => `text ${i}`);
  const lines = await readAll(memoryFile("x.parquet", rowsAsParquet(texts)));
  expect(lines).toEqual(texts.map((text, id) => JSON.stringify({ id, text })));
});

/** [[1, 2], null, [], [null, 3], [4]] of five optional lists of optional values. */
const LIST: Element[] = [
  { name: "root", children: 1 },
  { name: "l", repetition: "optional", children: 1, converted: 3 },
  { name: "list", repetition: "repeated", children: 1 },
  { name: "element", type: "INT64", repetition: "optional" },
];
const REPS = [0, 1, 0, 0, 0, 1, 0];
const DEFS = [3, 3, 0, 1, 2, 3, 3];
const LISTS = ["[1,2]", "null", "[]", "[null,3]", "[4]"].map((list) => `{"l":${list}}`);

/** Cuts pages that begin at these values. */
function cut(starts: number[], version: 1 | 2): Page[] {
  let taken = 0;
  return starts.map((from, i) => {
    const to = starts[i + 1] ?? REPS.length;
    const [reps, defs] = [REPS.slice(from, to), DEFS.slice(from, to)];
    const there = defs.filter((def) => def === 3).length;
    const values = plainLongs([1n, 2n, 3n, 4n].slice(taken, taken + there));
    taken += there;
    return { version, reps, defs, count: to - from, rows: reps.filter((rep) => rep === 0).length, values };
  });
}

describe("lists", () => {
  test.each([
    [1, [0]],
    [2, [0]],
    [2, [0, 2, 3, 6]],
    [1, [0, 1, 5]], // a row that continues in the next page
    [1, [0, 1, 2, 3, 4, 5, 6]],
  ] as const)("from pages of version %d that begin at %j", async (version, starts) => {
    const leaf = {
      type: "INT64",
      path: ["l", "list", "element"],
      maxRep: 1,
      maxDef: 3,
      pages: cut([...starts], version),
    } as const;
    expect(await readAll(fileOf(LIST, leaf, 5))).toEqual(LISTS);
    expect(await readAll(fileOf(LIST, leaf, 5), { from: { row: 3, byte: null } })).toEqual(LISTS.slice(3));
  });

  test("of old writers, without the level between, and without any annotation", async () => {
    const old: Element[] = [
      { name: "root", children: 1 },
      { name: "l", repetition: "optional", children: 1, converted: 3 },
      { name: "array", type: "INT64", repetition: "repeated" },
    ];
    const pages = [{ reps: [0, 1, 0, 0], defs: [2, 2, 0, 1], count: 4, values: plainLongs([1n, 2n]) }];
    const leaf = { type: "INT64", path: ["l", "array"], maxRep: 1, maxDef: 2, pages } as const;
    expect(await readAll(fileOf(old, leaf, 3))).toEqual(['{"l":[1,2]}', '{"l":null}', '{"l":[]}']);

    const bare: Element[] = [
      { name: "root", children: 1 },
      { name: "l", type: "INT64", repetition: "repeated" },
    ];
    const some = [{ reps: [0, 1, 0], defs: [1, 1, 0], count: 3, values: plainLongs([1n, 2n]) }];
    expect(await readAll(fileOf(bare, { type: "INT64", path: ["l"], maxRep: 1, maxDef: 1, pages: some }, 2))).toEqual([
      '{"l":[1,2]}',
      '{"l":[]}',
    ]);
  });
});

const ONE_TEXT: Element[] = [
  { name: "root", children: 1 },
  { name: "t", type: "BYTE_ARRAY", converted: 0 },
];
const TEXT = { type: "BYTE_ARRAY", path: ["t"], maxRep: 0, maxDef: 0 } as const;

test("the days and nanoseconds of INT96 are an instant", async () => {
  const bytes = Buffer.alloc(12);
  bytes.writeBigUInt64LE(3_723_000_000_001n);
  bytes.writeUInt32LE(2_440_588 + 365, 8);
  const schema: Element[] = [
    { name: "root", children: 1 },
    { name: "t", type: "INT96" },
  ];
  const leaf = { type: "INT96", path: ["t"], maxRep: 0, maxDef: 0, pages: [{ count: 1, values: bytes }] } as const;
  expect(await readAll(fileOf(schema, leaf, 1))).toEqual(['{"t":"1971-01-01T01:02:03.000000001Z"}']);
});

test("empty texts, also at the end of a page", async () => {
  const pages = [["", "x", ""], [""]].map((texts): Page => ({ count: texts.length, values: plainTexts(texts) }));
  const file = writeParquet(ONE_TEXT, [{ rows: 4, leaves: [{ ...TEXT, pages }] }]);
  expect(await readAll(memoryFile("x.parquet", file))).toEqual(['{"t":""}', '{"t":"x"}', '{"t":""}', '{"t":""}']);
});

describe("the parser does not trust the claims of a file about itself", () => {
  const dictionary: Page = { dictionary: 1, count: 1, values: plainTexts(["x"]) };
  const indexes = (count: number, run: bigint): Page => ({
    count,
    encoding: "RLE_DICTIONARY",
    values: Buffer.concat([Buffer.from([1]), varint(run), Buffer.from([0])]),
  });

  test.each<[what: string, pages: Page[], values: number, rows: number, message: string]>([
    ["a run of a billion in a page of three", [dictionary, indexes(3, 2_000_000_000n)], 3, 3, ""],
    [
      "a page of two billion values",
      [dictionary, indexes(2_000_000_000, 4_000_000_000n)],
      2_000_000_000,
      3,
      "Write smaller pages",
    ],
    ["more values than the column has", [dictionary, indexes(5, 10n)], 3, 3, "a page of t claims 5 values"],
    [
      "an index beyond the dictionary",
      [dictionary, { ...indexes(1, 2n), values: Buffer.concat([Buffer.from([8]), runs([7], 8)]) }],
      1,
      1,
      "not in its dictionary",
    ],
    ["a dictionary that is not there", [indexes(3, 6n)], 3, 3, "a missing dictionary"],
    [
      "a page that unpacks into two gigabytes",
      [{ count: 1, values: plainTexts(["x"]), claims: { unpacked: 2 ** 31 - 1 } }],
      1,
      1,
      "Write smaller pages",
    ],
    [
      "a page beyond its column",
      [{ count: 1, values: plainTexts(["x"]), claims: { packed: 1000 } }],
      1,
      1,
      "a page claims 1000 bytes, but only 5 are left",
    ],
    [
      "a page of negative size",
      [{ count: 1, values: plainTexts(["x"]), claims: { packed: -5 } }],
      1,
      1,
      "a page claims -5 bytes",
    ],
    [
      "a text beyond its page",
      [{ count: 1, values: Buffer.from([255, 255, 255, 0, 65]) }],
      1,
      1,
      "a value is longer than its page",
    ],
    ["fewer values than rows", [{ count: 1, values: plainTexts(["x"]) }], 1, 9, "claims 9 rows, but ends after 1"],
    ...[{ reps: -1 }, { defs: -1 }, { reps: 3, defs: -3 }, { reps: 1_000 }, { defs: 1_000 }].map(
      (claims): [string, Page[], number, number, string] => [
        `levels of impossible lengths ${JSON.stringify(claims)}`,
        [{ version: 2, count: 1, values: plainTexts(["x"]), claims }],
        1,
        1,
        "impossible levels",
      ],
    ),
    [
      "text that is not UTF-8",
      [{ count: 1, values: plainTexts([new Uint8Array([0xff])]) }],
      1,
      1,
      "column t is not valid UTF-8",
    ],
  ])("%s", async (_what, pages, values, rows, message) => {
    const file = writeParquet(ONE_TEXT, [{ rows, leaves: [{ ...TEXT, pages, values }] }]);
    const found = await aside<ReadResult>("parquet", file);
    if (message === "") expect(found).toMatchObject({ rows, code: "" });
    else expect(found).toMatchObject({ code: "invalid_rows", message: expect.stringContaining(message) });
    expect(found.growthBytes).toBeLessThan(100e6);
  });

  test("texts that each begin as the one before them are not in memory together", async () => {
    const count = 20_000; // values of 1, 2, 3… characters: 200 MB from a page of 20 kB
    const values = Buffer.concat([equalSteps(0, 1, count), equalSteps(1, 0, count), Buffer.alloc(count, "x")]);
    const pages: Page[] = [{ count, encoding: "DELTA_BYTE_ARRAY", values }];
    const file = writeParquet(ONE_TEXT, [{ rows: count, leaves: [{ ...TEXT, pages }] }]);
    const found = await aside<ReadResult>("parquet", file);
    expect(found.characters).toBe((count * (count + 1)) / 2 + count * '{"t":""}'.length);
    expect(found.growthBytes).toBeLessThan(150e6);
  });
});

describe("pages with hostile compressed data", () => {
  const BOMB = 64 * 2 ** 20;
  const zeros = new Uint8Array(BOMB);
  /** A length, one literal, and copies of 64 bytes each. */
  const snappy = (bytes: number) =>
    Buffer.concat([
      varint(BigInt(bytes)),
      Buffer.from([0, 0]),
      Buffer.alloc(3 * Math.floor(bytes / 64), "fe0100", "hex"),
    ]);
  /** One literal, and a match whose length is a sum of 255s. */
  const lz4 = (bytes: number) =>
    Buffer.concat([
      Buffer.from([0x1f, 0, 1, 0]),
      Buffer.alloc(Math.floor(bytes / 255), 255),
      Buffer.from([0, 0x10, 0]),
    ]);
  const CODECS: Record<string, { codec: number; bomb: Uint8Array }> = {
    snappy: { codec: 1, bomb: snappy(BOMB) },
    gzip: { codec: 2, bomb: gzipSync(zeros) },
    brotli: { codec: 4, bomb: brotliCompressSync(zeros, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }) },
    lz4: { codec: 5, bomb: lz4(BOMB) },
    zstd: { codec: 6, bomb: zstdCompressSync(zeros) },
    "raw lz4": { codec: 7, bomb: lz4(BOMB) },
  };
  const CLAIMS = { "less than it has": 100, "what it has": BOMB, "more than any machine has": 2 ** 31 - 1 };
  const cases = Object.keys(CODECS).flatMap((name) => Object.keys(CLAIMS).map((claim) => [name, claim] as const));

  test.each(cases)("a %s bomb that claims %s never takes the memory that it wants", async (name, claim) => {
    const { codec, bomb } = CODECS[name] as { codec: number; bomb: Uint8Array };
    const unpacked = CLAIMS[claim as keyof typeof CLAIMS];
    const pages: Page[] = [{ count: 1, values: bomb, claims: { unpacked } }];
    const file = writeParquet(ONE_TEXT, [{ rows: 1, leaves: [{ ...TEXT, pages, values: 1, codec }] }]);
    const found = await aside<ReadResult>("parquet", file);
    if (unpacked !== BOMB) expect(found).toMatchObject({ code: "invalid_rows", rows: 0 }); // a page may have that much
    expect(found.growthBytes).toBeLessThan(300e6);
  });

  test.each(Object.keys(CODECS))("random bytes as %s are refused", async (name) => {
    const random = randomFor(`parquet ${name}`);
    for (let round = 0; round < 20; round++) {
      const values = Uint8Array.from({ length: 200 }, () => Math.floor(256 * random()));
      const pages: Page[] = [{ count: 1, values, claims: { unpacked: 1 + Math.floor(1_000 * random()) } }];
      const leaf = { ...TEXT, pages, values: 1, codec: CODECS[name]?.codec ?? 0 };
      const file = memoryFile("x.parquet", writeParquet(ONE_TEXT, [{ rows: 1, leaves: [leaf] }]));
      expect(await faultOf(readAll(file))).toMatchObject({ code: "invalid_rows" });
    }
  });

  test("groups in groups, a thousand deep, are refused", async () => {
    const deep: Element[] = Array.from({ length: 1_000 }, (_, i) => ({
      name: `g${i}`,
      children: 1,
      repetition: "repeated",
    }));
    const path = [...deep.slice(1).map(({ name }) => name), "t"];
    const leaf = { ...TEXT, path, maxRep: 999, maxDef: 999, pages: [{ count: 1, values: plainTexts(["x"]) }] };
    const schema: Element[] = [...deep, { name: "t", type: "BYTE_ARRAY" }];
    const found = await aside<ReadResult>("parquet", writeParquet(schema, [{ rows: 1, leaves: [leaf] }]));
    expect(found).toMatchObject({ code: "invalid_rows", rows: 0 });
  });
});

type ReadResult = { rows: number; characters: number; code: string; message: string; growthBytes: number };

/** DELTA_BINARY_PACKED of `first`, `first + step`, …: blocks whose differences take no bits. */
function equalSteps(first: number, step: number, count: number): Uint8Array {
  const blocks = Math.ceil((count - 1) / 128);
  const block = Buffer.concat([varint(BigInt(2 * step)), Buffer.alloc(4)]);
  const head = [varint(128n), varint(4n), varint(BigInt(count)), varint(BigInt(2 * first))];
  return Buffer.concat([...head, ...Array<Uint8Array>(blocks).fill(block)]);
}
