// tier: all (real databases and stores)
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { parquetColumns, parquetCount } from "../../src/workers/connector/formats/parquet/reader.ts";
import { decimalText } from "../../src/workers/connector/formats/parquet/text.ts";
import { instantText } from "../../src/workers/connector/formats/parquet/time.ts";
import { aside } from "../aside/aside.ts";
import { tempDir } from "../harness.ts";
import { describeWith, judge } from "../servers/servers.ts";
import { faultOf, memoryFile, readAll } from "./formats_kit.ts";

/** Each column with DuckDB's own text for it. */
const EXACT: Record<string, string> = {
  i8: "(i % 256 - 128)::TINYINT",
  u8: "(i % 256)::UTINYINT",
  u32: "i::UINTEGER + 4294960000::UINTEGER",
  i64: "CASE WHEN i % 9 = 0 THEN NULL ELSE -9223372036854775807 + i * i * 1000003 END",
  u64: "i::UBIGINT + 18446744073709000000::UBIGINT",
  d4: "((i % 100 - 50) / 4)::DECIMAL(4, 2)",
  d9: "CASE WHEN i % 7 = 0 THEN NULL ELSE (i::DECIMAL(9, 3)) / 3 END::DECIMAL(9, 3)",
  d18: "((-i * 1234567890)::DECIMAL(18, 5) + 0.00001::DECIMAL(18, 5))::DECIMAL(18, 5)",
  d38: "((-i * i * i)::HUGEINT * 99999999999999999 % 1000000000000000000000000000)::DECIMAL(38, 10)",
};
const JSON_LIKE: Record<string, string> = {
  text: `'text "q" ' || i || chr(10) || 'é😀' || chr(0)`,
  word: "CASE i % 3 WHEN 0 THEN NULL WHEN 1 THEN 'red' ELSE 'blue' END",
  double: "i::DOUBLE / 3 - 1000",
  flag: "CASE WHEN i % 5 = 0 THEN NULL ELSE i % 2 = 0 END",
  list: "CASE i % 3 WHEN 0 THEN NULL WHEN 1 THEN [] ELSE [i, NULL, i + 1] END",
  lists: "CASE i % 4 WHEN 0 THEN [[1, 2], [], NULL, [i]] WHEN 1 THEN [] WHEN 2 THEN NULL ELSE [NULL] END",
  struct:
    "CASE WHEN i % 5 = 0 THEN NULL ELSE {'a': i, 'b': CASE WHEN i % 2 = 0 THEN NULL ELSE {'c': 'x' || i} END} END",
  messages: "[{'role': 'user', 'content': 'hi ' || i}, {'role': 'assistant', 'content': NULL}]",
  map: "CASE WHEN i % 4 = 3 THEN NULL WHEN i % 4 = 2 THEN MAP {} ELSE MAP {'k' || (i % 4): [i], '__proto__': NULL} END",
  '"a.b ""quoted"""': "i",
  nothing: "NULL::INTEGER",
};

describeWith(
  "Parquet, as DuckDB writes and reads it",
  () => judge("@duckdb/node-api"),
  ({ DuckDBInstance }) => {
    const dir = tempDir();
    const started = DuckDBInstance.create(":memory:").then((db: { connect: () => unknown }) => db.connect());
    const run = async (sql: string) => (await started).run(sql);
    const rowsBy = async (sql: string) => (await (await started).runAndReadAll(sql)).getRowObjectsJson();
    const written = async (name: string, select: string, how: string) => {
      const path = join(dir, `${name}.parquet`);
      await run(`COPY (${select}) TO '${path}' (FORMAT parquet, ${how})`);
      return memoryFile(`${name}.parquet`, new Uint8Array(await Bun.file(path).arrayBuffer()));
    };
    const columns = Object.entries({ ...EXACT, ...JSON_LIKE }).map(([name, sql]) => `${sql} AS ${name}`);
    const table = `SELECT i AS id, ${columns.join(", ")} FROM range(3000) t(i)`;

    const WRITERS = ["snappy", "zstd", "gzip", "brotli", "lz4_raw", "uncompressed"].flatMap((codec) =>
      ["V1", "V2"].map((version) => [codec, version] as const),
    );
    test.each(WRITERS)("every value is exact (%s, %s)", async (codec, version) => {
      const how = `COMPRESSION ${codec}, PARQUET_VERSION ${version}, ROW_GROUP_SIZE 2048`;
      const file = await written(`all_${codec}_${version}`, table, how);
      const exact = Object.keys(EXACT).map((name) => `${name}::VARCHAR AS ${name}`);
      const like = Object.keys(JSON_LIKE).map((name) => `to_json(${name})::VARCHAR AS ${name}`);
      const theirs = await rowsBy(`SELECT ${[...exact, ...like].join(", ")} FROM (${table}) ORDER BY id`);
      const ours = await readAll(file);
      expect(ours).toHaveLength(3000);
      ours.forEach((line, i) => {
        const { id, ...row } = JSON.parse(line);
        expect(id).toBe(i);
        const texts = JSON.parse(line, ((_key: string, value: unknown, { source }: { source: string }) =>
          typeof value === "number" ? source : value) as never);
        for (const name of Object.keys(EXACT)) expect([name, texts[name]]).toEqual([name, theirs[i][name]]);
        for (const name of Object.keys(row).filter((name) => !(name in EXACT)))
          expect([name, row[name]]).toEqual([name, JSON.parse(theirs[i][name] ?? "null")]);
      });
    });

    test("times are ISO 8601 for every unit and every date", async () => {
      const file = await written(
        "times",
        `SELECT TIMESTAMP '1969-12-31 23:59:59.999999' AS micros, TIMESTAMP_MS '2024-02-29 12:00:00.5' AS millis,
          TIMESTAMP_NS '2024-02-29 12:00:00.123456789' AS nanos, TIMESTAMPTZ '2024-01-01 00:00:00+02' AS utc,
          DATE '1582-10-04' AS old, DATE '15269-07-31' AS far, TIME '12:34:56.789' AS clock,
          INTERVAL '1 month 2 days 3.5 seconds' AS span, 'infinity'::TIMESTAMP AS never, 'NaN'::DOUBLE AS nan,
          '-0.0'::DOUBLE AS negative, 0.1::FLOAT AS single, encode('é') AS bytes, uuid() AS uuid,
          '{"n": 12345678901234567890.10}'::JSON AS json, 'b'::ENUM('a', 'b') AS enum`,
        "COMPRESSION snappy",
      );
      const [line = ""] = await readAll(file);
      const { uuid, ...row } = JSON.parse(line);
      expect(uuid).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
      expect(row).toEqual({
        micros: "1969-12-31T23:59:59.999999",
        millis: "2024-02-29T12:00:00.500",
        nanos: "2024-02-29T12:00:00.123456789",
        utc: "2023-12-31T22:00:00Z",
        old: "1582-10-04",
        far: "+015269-07-31",
        clock: "12:34:56.789000",
        span: "P1M2DT3.5S",
        never: "+294247-01-10T04:00:54.775807",
        nan: null,
        negative: -0,
        single: 0.10000000149011612,
        bytes: "w6k=",
        json: { n: 12345678901234567000 },
        enum: "b",
      });
      expect(line).toContain('"json":{"n": 12345678901234567890.10}');
      expect(line).toContain('"negative":-0,');
    });

    test("empty files, columns, counts and resumed reads after any row are right", async () => {
      const none = await written("none", "SELECT 1 AS a WHERE false", "COMPRESSION snappy");
      expect([await readAll(none), await parquetCount(none), await parquetColumns(none)]).toEqual([[], 0, ["a"]]);
      const file = await written("some", "SELECT i, [i] AS l FROM range(5000) t(i)", "ROW_GROUP_SIZE 2048");
      expect([await parquetCount(file), await parquetColumns(file)]).toEqual([5000, ["i", "l"]]);
      for (const row of [0, 1, 2047, 2048, 4999, 5000]) {
        const rest = await readAll(file, { from: { row, byte: null } });
        expect(rest).toHaveLength(5000 - row);
        expect(rest[0]).toBe(row < 5000 ? `{"i":${row},"l":[${row}]}` : undefined);
      }
      file.reads.length = 0;
      await readAll(file, { from: { row: 4096, byte: null } });
      expect(file.reads).toHaveLength(2); // the footer and the last row group: earlier ones are not read
    });

    test("a row that a small dictionary makes too long is refused", async () => {
      const select = "SELECT list_transform(range(200), x -> repeat('x', 10000)) AS l FROM range(3)";
      const fault = await faultOf(readAll(await written("long", select, "COMPRESSION zstd")));
      expect(fault.code).toBe("invalid_rows");
      expect(fault.message).toContain("is longer than 1000000 bytes");
    });

    test("a file damaged at any byte gives an error with a message or rows, and never uses much memory", async () => {
      const good = await written(
        "small",
        "SELECT i, 'x' || i AS s, [i, i] AS l FROM range(300) t(i)",
        "ROW_GROUP_SIZE 2048",
      );
      const { refused, strange, growthBytes } = await aside<{
        refused: number;
        strange: string[];
        growthBytes: number;
      }>("damaged_parquet", await good.read(0, good.bytes));
      expect(strange).toEqual([]);
      expect(refused).toBeGreaterThan(100);
      expect(growthBytes).toBeLessThan(400e6);
    }, 120_000);
  },
);

describe("Parquet that claims too much", () => {
  const tail = (length: number) => {
    const end = Buffer.alloc(8, "PAR1");
    end.writeUInt32LE(length);
    return end;
  };
  const withFooter = (footer: Uint8Array) =>
    memoryFile("x.parquet", Buffer.concat([Buffer.from("PAR1"), footer, tail(footer.byteLength)]));

  test.each([
    ["too short", memoryFile("x.parquet", "PAR1PAR1"), "it has 8 bytes, too few"],
    ["cut off", memoryFile("x.parquet", `PAR1${"x".repeat(100)}`), "its end is not that of a Parquet file"],
    ["encrypted", memoryFile("x.parquet", "PARE00000000PARE"), "it is encrypted"],
    [
      "a footer beyond the file",
      memoryFile("x.parquet", Buffer.concat([Buffer.alloc(50), tail(2 ** 31)])),
      "footer claims",
    ],
    [
      "a hundred million empty things",
      withFooter(
        Buffer.concat([Buffer.from([0x29, 0xfc]), Buffer.from([0x80, 0x80, 0x80, 0x30]), Buffer.alloc(5_000_000)]),
      ),
      "more than 4000000 values",
    ],
    ["nesting without end", withFooter(Buffer.alloc(100_000, 0x1c)), "nested too deeply"],
    ["an empty footer", withFooter(new Uint8Array(1)), ""],
  ])("%s", async (_what, file, message) => {
    const fault = await faultOf(readAll(file));
    expect(fault.code).toBe("invalid_rows");
    expect(fault.message).toContain("x.parquet: it cannot be read as Parquet: ");
    expect(fault.message).toContain(message);
    expect(file.reads.reduce((sum, [from, to]) => sum + to - from, 0)).toBeLessThan(file.bytes * 2 + 1);
  });
});

test("decimals and instants keep every digit", () => {
  expect([decimalText(-5n, 2), decimalText(1230n, 2), decimalText(0n, 3), decimalText(7n, 0)]).toEqual([
    "-0.05",
    "12.30",
    "0.000",
    "7",
  ]);
  for (const ms of [0, -1, 951_782_399_999, 1_709_164_800_000, -62_135_596_800_000, 253_402_300_799_999])
    expect(instantText(BigInt(ms), 1000n, true)).toBe(JSON.stringify(new Date(ms).toISOString()).replace(".000", ""));
});
