// tier: all (starts workers that read large files)
import { describe, expect, test } from "bun:test";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { kindByName } from "../../src/lib/rows/file_kind.ts";
import { BEGINNING, type Piece } from "../../src/workers/connector/formats/file.ts";
import { columnsOf, countOf, rowsOf } from "../../src/workers/connector/formats/rows.ts";
import { cpuMsOf } from "../cost.ts";
import { faultOf, memoryFile, ROW_BYTES, readAll } from "./formats_kit.ts";

const JSONL = '{"a":1,"big":12345678901234567890.120}\n\n  {"b": "é😀"}  \r\n{"c":[1, 2]}';
const ROWS = ['{"a":1,"big":12345678901234567890.120}', '{"b": "é😀"}', '{"c":[1, 2]}'];

describe("JSON lines", () => {
  test.each([1, 3, 7, 1000])("arrive as written for all chunks of the network (%d bytes)", async (step) => {
    expect(await readAll(memoryFile("x.jsonl", `\ufeff${JSONL}`, step))).toEqual(ROWS);
    expect(await readAll(memoryFile("x.jsonl", `${JSONL}\n`, step))).toEqual(ROWS);
  });

  test.each([
    ["x.jsonl.gz", gzipSync(JSONL)],
    ["x.jsonl", gzipSync(JSONL)], // stored packed under its plain name
    ["part-0000", gzipSync(JSONL)],
    ["x.ndjson.zst", zstdCompressSync(JSONL)],
    ["two members.json.gz", Buffer.concat([gzipSync(`${ROWS[0]}\n`), gzipSync(`${ROWS[1]}\n${ROWS[2]}`)])],
    ["two frames.zst", Buffer.concat([zstdCompressSync(`${ROWS[0]}\n`), zstdCompressSync(`${ROWS[1]}\n${ROWS[2]}`)])],
  ])("%s is decompressed", async (name, bytes) => {
    expect(await readAll(memoryFile(name, bytes, 5))).toEqual(ROWS);
  });

  test.each([
    ["x.jsonl.gz", gzipSync(JSONL)],
    ["x.jsonl.zst", zstdCompressSync(JSONL)],
  ])("%s that was cut off is an error and not a short file", async (name, bytes) => {
    for (const cut of [4, 9]) {
      const { code, message } = await faultOf(readAll(memoryFile(name, bytes.subarray(0, -cut))));
      expect({ code, message }).toEqual({
        code: "invalid_rows",
        message: `${name}: it cannot be decompressed: it is truncated`,
      });
    }
  });

  test.each([
    ["[1, 2]", "x.json: line 1 begins a list. Write one JSON object per line, for example with: jq -c '.[]'"],
    [
      '{"a":1}\n{\n "a": 2\n}',
      "x.json: line 2 does not end its object. Write one JSON object per line, for example with: jq -c .",
    ],
    ['{"a":1}\n\n"text"', "x.json: line 3 is not a JSON object"],
  ])("%j is refused with its line and what to do", async (text, message) => {
    const fault = await faultOf(readAll(memoryFile("x.json", text)));
    expect(fault.code).toBe("invalid_rows");
    expect(fault.message).toStartWith(message);
  });

  test("text that is not UTF-8 is refused with its line", async () => {
    const bytes = Buffer.concat([Buffer.from('{"a":1}\n{"a":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}\n{}\n')]);
    expect((await faultOf(readAll(memoryFile("x.jsonl", bytes)))).message).toBe("x.jsonl: line 2 is not valid UTF-8");
  });

  test("a line of the longest length passes, a longer one is refused before it is in memory", async () => {
    const longest = `{"a":"${"x".repeat(ROW_BYTES - 8)}"}`;
    expect(await readAll(memoryFile("x.jsonl", `${longest}\n{}`))).toHaveLength(2);
    const fault = await faultOf(readAll(memoryFile("x.jsonl", `{}\n{"a":"${"x".repeat(ROW_BYTES - 7)}"}\n`)));
    expect(fault.message).toStartWith("x.jsonl: line 2 is longer than 1000000 bytes");
    const endless = memoryFile("x.jsonl", new Uint8Array(10 * ROW_BYTES).fill(0x7b));
    expect((await faultOf(readAll(endless))).message).toStartWith("x.jsonl: line 1 is longer than 1000000 bytes");
    expect(endless.streamed).toBeLessThan(1.2 * ROW_BYTES);
    expect(endless.closed).toBe(1);
  });

  test("a small file that unpacks without end is refused as soon as this is seen", async () => {
    for (const content of [Buffer.alloc(200_000_000, "x"), Buffer.alloc(200_000_000, "\n")]) {
      const bomb = memoryFile("x.jsonl.gz", gzipSync(content), 1024);
      expect((await faultOf(readAll(bomb))).code).toBe("invalid_rows");
      expect(bomb.streamed).toBeLessThan(bomb.bytes / 2);
    }
  });

  test("a read resumes at its byte, and a packed file at its row", async () => {
    const text = Array.from({ length: 5000 }, (_, i) => `{"i":${i}}\n`).join("");
    for (const file of [memoryFile("x.jsonl", text, 4096), memoryFile("x.jsonl.gz", gzipSync(text), 512)]) {
      const pieces: Piece[] = [];
      for await (const piece of rowsOf(file, { rowBytes: ROW_BYTES, from: BEGINNING })) pieces.push(piece);
      expect(pieces.length).toBeGreaterThan(3);
      let given = 0;
      for (const { lines, place } of pieces) {
        given += lines.length;
        expect(place.row).toBe(given);
        expect(place.byte === null).toBe(file.name.endsWith(".gz"));
        const rest = await readAll(file, { from: place });
        expect(rest.length).toBe(5000 - given);
        expect(rest[0]).toBe(given < 5000 ? `{"i":${given}}` : undefined);
      }
    }
  });

  test("a read that resumed names a fault by the number of its row", async () => {
    const file = memoryFile("x.jsonl", '{"i":0}\n{"i":1}\n{"i":2}\nodd\n');
    expect((await faultOf(readAll(file, { from: { row: 1, byte: 8 } }))).message).toStartWith("x.jsonl: row 4 is not");
  });
});

describe("CSV", () => {
  const CSV = '\ufeffid,"the ""text""",n\r\n1,"a, b\r\nc",\n2,é😀,007\r\n\r\n3,"",1e5';
  const CELLS = [
    '{"id":"1","the \\"text\\"":"a, b\\r\\nc","n":""}',
    '{"id":"2","the \\"text\\"":"é😀","n":"007"}',
    '{"id":"3","the \\"text\\"":"","n":"1e5"}',
  ];

  test.each([1, 2, 5, 1000])("follows RFC 4180; a cell is a string (chunks of %d bytes)", async (step) => {
    expect(await readAll(memoryFile("x.csv", CSV, step))).toEqual(CELLS);
    expect(await readAll(memoryFile("x.csv.gz", gzipSync(CSV), step))).toEqual(CELLS);
    expect(await readAll(memoryFile("x.CSV", CSV, step), { from: { row: 2, byte: null } })).toEqual([CELLS[2]!]);
  });

  test("a table with tabs, and one with carriage returns alone", async () => {
    expect(await readAll(memoryFile("x.tsv", "a\tb,c\n1\t2"))).toEqual(['{"a":"1","b,c":"2"}']);
    expect(await readAll(memoryFile("x.csv", "a,b\r1,2\r3,4\r"))).toEqual(['{"a":"1","b":"2"}', '{"a":"3","b":"4"}']);
  });

  test("a header alone is no row, and a column without a name is named by its position", async () => {
    expect(await readAll(memoryFile("x.csv", "a,b\n"))).toEqual([]);
    expect(await columnsOf(memoryFile("x.csv", "a,b"), ROW_BYTES)).toEqual(["a", "b"]);
    expect(await readAll(memoryFile("x.csv", ",__proto__\n0,x\n"))).toEqual(['{"column_1":"0","__proto__":"x"}']);
  });

  test("a header of very many columns is read in no time", async () => {
    const names = Array.from({ length: 100_000 }, (_, i) => `c${i}`);
    const read = async () => expect(await columnsOf(memoryFile("x.csv", `${names}\n`), ROW_BYTES)).toEqual(names);
    expect(await cpuMsOf(read)).toBeLessThan(10_000); // comparing every pair would take twenty seconds
  });

  test.each([
    ["a,b\n1,2\n1,2,3\n", "x.csv: line 3 has 3 cells, but the header has 2"],
    ["a,b\n1\n", "x.csv: line 2 has 1 cells, but the header has 2"],
    ["a,b,a\n", 'x.csv: two columns of the header are named "a"'],
    ['a\n"open', "x.csv: invalid CSV: Quote Not Closed"],
    ['a\n"b"c\n', "x.csv: invalid CSV: Invalid Closing Quote"],
    [new Uint8Array([0xff, 0xfe, 0x61, 0x00]), "x.csv: it is not valid UTF-8. Save it as UTF-8"],
    [new Uint8Array([0x61, 0x0a, 0x62, 0xc3]), "x.csv: it is not valid UTF-8. Save it as UTF-8"],
  ])("%j is refused with a message", async (text, message) => {
    const fault = await faultOf(readAll(memoryFile("x.csv", text)));
    expect(fault.code).toBe("invalid_rows");
    expect(fault.message).toStartWith(message);
  });

  test.each([
    ["a quote that is never closed", `a\n"${"x\n".repeat(5_000_000)}`],
    ["cells without end", `a\n${",".repeat(10_000_000)}`],
    ["a cell that is too long", `a\n${"x".repeat(ROW_BYTES + 1)}\n`],
  ])("%s is refused before it fills the memory", async (_what, text) => {
    const file = memoryFile("x.csv", text);
    expect((await faultOf(readAll(file))).code).toBe("invalid_rows");
    expect(file.streamed).toBeLessThan(2 * ROW_BYTES);
  });
});

describe("a JSON array", () => {
  const ARRAY = '\ufeff[\n {"a": "}]\\"{", "n": 1.50},\r\n {\n  "b": [1,\n 2]\n }\n]\n';
  const OBJECTS = ['{"a": "}]\\"{", "n": 1.50}', '{ "b": [1, 2] }'];

  test.each([1, 3, 1000])("gives its objects for all chunks (%d bytes), each on one line", async (step) => {
    expect(await readAll(memoryFile("x.json", ARRAY, step))).toEqual(OBJECTS);
    expect(await readAll(memoryFile("x.json", "[]", step))).toEqual([]);
    expect(await readAll(memoryFile("x.json", '{\n"a":1}\n{"a":\n2}', step))).toEqual(['{ "a":1}', '{"a": 2}']);
  });

  test("continues after a row, and may be packed", async () => {
    expect(await readAll(memoryFile("x.json", ARRAY), { from: { row: 1, byte: null } })).toEqual([OBJECTS[1]!]);
    expect(await readAll(memoryFile("x.json.gz", gzipSync(ARRAY), 5))).toEqual(OBJECTS);
  });

  test.each([
    ['[{"a":1},', "x.json: it is truncated after row 1"],
    ['[{"a":1}', "x.json: it is truncated after row 1"],
    ['[{"a":1},{"a":', "x.json: it is truncated after row 1"],
    ['[{"a":1} {"a":2}]', "x.json: a comma is missing or misplaced after row 1"],
    ['[{"a":1},,{"a":2}]', "x.json: a comma is missing or misplaced after row 1"],
    ['[{"a":1}, 7]', "x.json: row 2 is not a JSON object"],
    ['[{"a":1}] {"a":2}', "x.json: text follows the end of the list after row 1"],
    ['[{"a":\n"x\ny"}]', "x.json: row 1 is not valid JSON"],
    [`[{"a":"${"x".repeat(5 * ROW_BYTES)}"}]`, "x.json: row 1 is longer than"],
  ])("%p is refused with its row", async (text, message) => {
    const fault = await faultOf(readAll(memoryFile("x.json", text)));
    expect(fault.code).toBe("invalid_rows");
    expect(fault.message).toStartWith(message);
  });
});

describe("a format", () => {
  test("of cells is seen in the header: commas, semicolons or tabs", async () => {
    for (const [name, text] of [
      ["x.csv", "a;b\n1;2,5\n"],
      ["x.csv", "a\tb\n1\t2,5\n"],
      ["x.tsv", "a\tb\n1\t2,5\n"],
      ["data", '"a";"b"\n1;2,5\n'],
    ] as const)
      expect(await readAll(memoryFile(name, text))).toEqual(['{"a":"1","b":"2,5"}']);
  });

  test("is read from the name, with any compression", () => {
    const names = ["a/b.JSONL", "x.csv.gz", "x.parquet", "x.tsv.zst", "x.jsonl.gzip", "part-0", "x.gz", "x.arrow"];
    expect(names.map(kindByName)).toEqual(["jsonl", "csv", "parquet", "tsv", "jsonl", undefined, undefined, undefined]);
  });

  test("is otherwise detected in the first bytes, or the error asks for it", async () => {
    expect(await readAll(memoryFile("part-0", ' \n{"a":1}'))).toEqual(['{"a":1}']);
    expect((await faultOf(readAll(memoryFile("part-0", "PAR1 and no more")))).message).toContain("as Parquet");
    expect((await faultOf(readAll(memoryFile("part-0", "hello world\n")))).message).toBe(
      "part-0: neither its name nor its first bytes tell its format. Name it .jsonl, .csv or .parquet",
    );
    const zip = memoryFile("rows.jsonl", new Uint8Array([0x50, 0x4b, 3, 4, 0]));
    expect((await faultOf(readAll(zip))).message).toBe(
      "rows.jsonl: it is compressed with zip, which is not supported. Use gzip or Zstandard",
    );
    expect(zip.closed).toBe(1);
  });

  test("columns are the names in the first rows; only Parquet states its number of rows", async () => {
    expect(await columnsOf(memoryFile("x.jsonl.gz", gzipSync(JSONL)), ROW_BYTES)).toEqual(["a", "big", "b", "c"]);
    expect((await faultOf(columnsOf(memoryFile("x.jsonl", "{a}"), ROW_BYTES))).message).toContain("row 1 is not valid");
    expect(await countOf(memoryFile("x.jsonl", JSONL))).toBe(null);
    expect(await countOf(memoryFile("part-0", JSONL))).toBe(null);
    expect(await countOf(memoryFile("x.csv", ""))).toBe(0);
    expect(await readAll(memoryFile("x.csv", ""))).toEqual([]);
  });
});

test("a quote inside an unquoted cell is an error of the rows, not a broken source", async () => {
  const fault = await faultOf(readAll(memoryFile("rows.csv", 'prompt,n\n"a" b"c,1\nx"y,2\n')));
  expect([fault.code, fault.message.includes("invalid CSV")]).toEqual(["invalid_rows", true]);
  const opening = await faultOf(readAll(memoryFile("rows.csv", 'prompt,n\na "b",1\n')));
  expect([opening.code, opening.message.includes("invalid CSV")]).toEqual(["invalid_rows", true]);
});
