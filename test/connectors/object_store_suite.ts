import { beforeAll, describe, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import type { Credentials, SourceType } from "../../src/lib/source.ts";
import type { Open } from "../../src/workers/connector/types.ts";
import { cuttingProxy } from "../servers/proxy.ts";
import { IS_FULL } from "../sweep.ts";
import { faultOf } from "./formats_kit.ts";
import {
  calm,
  chunksOf,
  expectFlat,
  expectSilence,
  LARGE_ROWS,
  largeFile,
  numbered,
  openSource,
  readLarge,
  readRows,
} from "./objects_kit.ts";
import { rowsAsParquet } from "./parquet_writer.ts";

export type SmallObject = { name: string; content: string };
export type Bench = {
  type: SourceType;
  open: Open;
  /** Writes with another vendor's client. */
  put: (key: string, content: string | Uint8Array) => Promise<unknown>;
  /** Writes many small objects, if the server has a cheaper way. */
  putAll?: (objects: readonly SmallObject[]) => Promise<unknown>;
  /** A quick run reads small pages in the file of the store: a thousand objects are expensive there. */
  hasSmallPages?: true;
  /** Returns the URI of a path in the bucket, through another port if given. */
  uri: (path: string, port?: number) => string;
  /** A URI in a bucket that does not exist. */
  nowhere: string;
  port: number;
  credentials: Credentials;
  /** Credentials that get `unauthorized`, if the server checks them. */
  wrong?: Credentials;
  secrets: readonly string[];
};

const idOf = (row: string | undefined) => (row === undefined ? undefined : (JSON.parse(row).id as number));
const lines = (rows: readonly string[]) => `${rows.join("\n")}\n`;

/** Tests that every object store must pass, over any protocol. */
export function objectStoreTests(bench: Bench) {
  const { type, credentials, put, uri, secrets } = bench;
  const at = (source_uri: string, given: Credentials = credentials, options = {}) =>
    openSource({ open: bench.open, source: { source_type: type, source_uri }, credentials: given }, options);

  describe("formats", () => {
    const rows = numbered(2500);
    const cells = rows.map((row) => JSON.parse(row) as { id: number; text: string });
    const csv = `id,text\r\n${cells.map(({ id, text }) => `${id},"${text}"`).join("\r\n")}`;
    const asTexts = cells.map(({ id, text }) => JSON.stringify({ id: `${id}`, text }));
    const parquet = rowsAsParquet(cells.map(({ text }) => text));
    test.each<[name: string, content: string | Uint8Array, expected: string[], count: number | null]>([
      ["rows.jsonl", lines(rows), rows, null],
      ["rows.jsonl.gz", gzipSync(lines(rows)), rows, null],
      ["rows.csv", csv, asTexts, null],
      ["rows.parquet", parquet, rows, 2500],
      ["plain name", lines(rows), rows, null],
    ])("%s", async (name, content, expected, count) => {
      await put(`formats/${name}`, content);
      const connector = at(uri(`formats/${name}`));
      await connector.test(calm());
      expect(await connector.columns(calm())).toEqual(["id", "text"]);
      expect(await connector.count(calm())).toBe(count);
      expect(await readRows(connector)).toEqual(expected);
    });
  });

  describe("many objects", () => {
    const [a, b, c] = [numbered(3), numbered(3, 3), numbered(3, 6)];
    beforeAll(async () => {
      await put("many/b ü+&'(1)/part.jsonl.gz", gzipSync(lines(b)));
      await put("many/a.jsonl", lines(a));
      await put("many/c.parquet", rowsAsParquet(c.map((row) => JSON.parse(row).text)));
      await put("many/_SUCCESS", "");
      await put("many/_temporary/0.jsonl", "not read");
      await put("many/.a.jsonl.crc", "not read");
      await put("many/empty.jsonl", "");
      await put("manyfold.jsonl", lines(numbered(1, 99)));
    });
    const ids = (rows: string[]) => rows.map((row) => JSON.parse(row).id as number);

    test("of one prefix are read in the order of their keys, without hidden objects", async () => {
      expect(ids(await readRows(at(uri("many/"))))).toEqual([0, 1, 2, 3, 4, 5, 0, 1, 2]);
      expect(ids(await readRows(at(uri("many"))))).toEqual([0, 1, 2, 3, 4, 5, 0, 1, 2, 99]);
      expect(ids(await readRows(at(uri("many/**.jsonl"))))).toEqual([0, 1, 2]);
      expect(ids(await readRows(at(uri("many/b ü+&'(1)/part.jsonl.gz"))))).toEqual([3, 4, 5]);
      expect(await at(uri("many/")).count(calm())).toBe(null);
      expect(await at(uri("many/c*")).count(calm())).toBe(3);
    });

    if (IS_FULL || !bench.hasSmallPages)
      test("more than one page of objects is read", async () => {
        const putAll = bench.putAll ?? putInTurn;
        // Hidden objects fill the first page and are not read: each request is expensive with an emulated server.
        const hidden = Array.from({ length: 1000 }, (_, i) => `pages/_${String(i).padStart(4, "0")}`);
        const names = ["pages/0.jsonl", ...hidden, "pages/a.jsonl", "pages/b.jsonl"];
        await putAll(names.map((name, i) => ({ name, content: lines(numbered(1, i)) })));
        expect(ids(await readRows(at(uri("pages/"))))).toEqual([0, 1001, 1002]);
      }, 600_000); // a thousand objects in a server that may be emulated

    async function putInTurn(objects: readonly SmallObject[]) {
      for (let i = 0; i < objects.length; i += 15)
        await Promise.all(objects.slice(i, i + 15).map(({ name, content }) => put(name, content)));
    }

    test("a second read resumes after any piece with exactly the remaining rows", async () => {
      const rows = [...a, ...b, ...numbered(3)];
      for (const prefix of ["many/", "resume/"]) {
        if (prefix === "resume/") await put("resume/x.jsonl", lines(numbered(20_000)));
        const expected = prefix === "many/" ? rows : numbered(20_000);
        let given = 0;
        const chunks = await chunksOf(at(uri(prefix)));
        expect(chunks.length).toBeGreaterThan(1);
        for (const { lines, cursor } of chunks) {
          given += lines.length;
          const rest = await readRows(at(uri(prefix)), { resume: cursor ?? {} });
          expect(rest.length).toBe(expected.length - given);
          expect(idOf(rest[0])).toEqual(idOf(expected[given]));
        }
        expect(JSON.stringify(chunks.map(({ cursor }) => cursor))).not.toContain(secrets[0] ?? "nothing secret");
      }
    }, 120_000);

    test("a read does not resume over objects that have changed", async () => {
      await put("changing/a.jsonl", lines(a));
      await put("changing/b.jsonl", lines(b));
      const chunks = await chunksOf(at(uri("changing/")));
      await put("changing/a.jsonl", lines(c));
      for (const { cursor } of chunks) {
        const fault = await faultOf(readRows(at(uri("changing/")), { resume: cursor ?? {} }));
        expect(fault.code).toBe("broken");
        expect(fault.message).toContain("changed while it was being read");
      }
    });
  });

  describe("missing objects", () => {
    test("an empty object has no rows and no columns", async () => {
      await put("empty/rows.jsonl", "");
      const connector = at(uri("empty/rows.jsonl"));
      await connector.test(calm());
      expect([await connector.columns(calm()), await connector.count(calm()), await readRows(connector)]).toEqual([
        [],
        null,
        [],
      ]);
    });

    test("a missing key, prefix or bucket is reported in a message", async () => {
      await put("folder/_SUCCESS", "");
      for (const where of [uri("missing.jsonl"), uri("missing/"), uri("folder/"), bench.nowhere]) {
        const fault = await faultOf(at(where).test(calm()));
        expect([where, fault.code, fault.param]).toEqual([where, "not_found", "/source_uri"]);
        expectSilence(fault, secrets);
      }
    });

    test("an address that is not allowed gets no connection", async () => {
      const fault = await faultOf(at(uri("many/"), credentials, { allow: [] }).test(calm()));
      expect(fault.code).toBe("address_refused");
      expect(fault.message).toContain("network.allow");
      expectSilence(fault, secrets);
    });

    test("a server that is down is unreachable", async () => {
      const fault = await faultOf(at(uri("many/", 2)).test(calm()));
      expect(fault.code).toBe("unreachable");
      expectSilence(fault, secrets);
    });

    const { wrong } = bench;
    if (wrong)
      test("wrong credentials are refused with a message that does not repeat them", async () => {
        for (const where of [uri("many/"), uri("many/a.jsonl")]) {
          const fault = await faultOf(at(where, wrong).test(calm()));
          expect([fault.code, fault.param]).toEqual(["unauthorized", "/credentials"]);
          expectSilence(fault, [...secrets, ...Object.values(wrong).map(String)]);
        }
      });
  });

  describe("a connection", () => {
    const rows = numbered(60_000);
    beforeAll(async () => {
      await put("cut/rows.jsonl", lines(rows));
      await put(
        "cut/rows.parquet",
        rowsAsParquet(
          rows.map((row) => JSON.parse(row).text),
          { groupRows: 60_000, pageRows: 1000 },
        ),
      );
    }, 120_000);

    test.each(["rows.jsonl", "rows.parquet"])("that is cut resumes at its position (%s)", async (name) => {
      using proxy = cuttingProxy(bench.port);
      const connector = at(uri(`cut/${name}`, proxy.port));
      await connector.test(calm());
      proxy.cutAfter(1_000_000);
      const got = await readRows(connector);
      expect(got.length).toBe(rows.length);
      expect(Bun.hash(got.join("\n"))).toBe(Bun.hash(rows.join("\n")));
      expect(proxy.bytes).toBeGreaterThan(1_000_000);
    });

    test("that stays silent ends the read with an error that says so", async () => {
      using proxy = cuttingProxy(bench.port);
      const connector = at(uri("cut/rows.jsonl", proxy.port));
      await connector.test(calm());
      proxy.cutAfter(500_000, { refuse: true });
      const fault = await faultOf(readRows(connector));
      expect(fault.code).toBe("broken");
      expect(fault.message).toMatch(/the connection broke 5 times at byte \d+/);
      expectSilence(fault, secrets);
    });

    test("is closed by a cancel before its end", async () => {
      const stop = new AbortController();
      let count = 0;
      const reading = (async () => {
        for await (const { lines } of at(uri("cut/rows.jsonl")).rows({ signal: stop.signal })) {
          count += lines.length;
          stop.abort(new Error("enough"));
        }
      })();
      expect(await reading.catch((error: Error) => error.message)).toBe("enough");
      expect(count).toBeLessThan(rows.length);
    });

    test("to an object that is overwritten meanwhile does not mix in the new content", async () => {
      using proxy = cuttingProxy(bench.port);
      await put("cut/moving.jsonl", lines(numbered(300_000))); // more than what connections hold
      let read = 0;
      const reading = (async () => {
        for await (const { lines: some } of at(uri("cut/moving.jsonl", proxy.port)).rows({ signal: calm() })) {
          if (read === 0) {
            proxy.cut(); // cut first: some servers block writers while a reader is open
            await put("cut/moving.jsonl", lines(numbered(300_000, 1_000_000)));
          }
          expect(JSON.parse(some[0] ?? "").id).toBe(read);
          read += some.length;
        }
      })();
      const fault = await faultOf(reading);
      expect(fault.code).toBe("broken");
      expect(fault.message).toContain("changed while it was being read");
    });
  });

  test(`${LARGE_ROWS} rows are read in flat memory`, async () => {
    await put("large/rows.jsonl", largeFile());
    const source = { source_type: type, source_uri: uri("large/") };
    expectFlat(await readLarge({ source, credentials }));
  }, 120_000);
}
