// tier: all (real databases and stores)
import { afterAll, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { SQL } from "bun";
import { open } from "../../src/workers/connector/mysql.ts";
import { tempDir, until } from "../harness.ts";
import { describeWith, mariadb } from "../servers/servers.ts";
import { linesOf, quiet, readAside, rowsOf } from "./sql_kit.ts";
import { sqlReaders, sqlSourceTests } from "./sql_source_suite.ts";

describeWith("mariadb", mariadb, (server) => {
  const bench = { type: "mysql", open, server } as const;
  sqlSourceTests(bench, {
    empty: "SELECT 1 AS a FROM seq_1_to_2 WHERE seq > 5",
    asleep: "SELECT sleep(86400) AS a",
    endless: "SELECT count(*) AS a FROM seq_1_to_1000000 x, seq_1_to_1000000 y",
    long: "SELECT repeat('x', 1000) AS a FROM seq_1_to_20000",
    million: "SELECT seq AS id, repeat('x', 100) AS text FROM seq_1_to_1000000",
    refused: [
      ["SELECT * FROM no_such_table", "not_found", "no_such_table"],
      ["SELECT no_such_column FROM seq_1_to_2", "invalid_source", "no_such_column"],
      ["SELECT 1 AS a, 2 AS a", "invalid_source", "AS"],
      ["SELECT FROM WHERE", "invalid_source", "syntax"],
      ["SELECT * FROM `my s3cret`", "not_found", "[redacted]"],
    ],
  });

  const { source, credentials, ask, refused } = sqlReaders(bench);
  const admin = new SQL(server.url, { max: 1 });
  const running = async (mark: string) =>
    (
      await admin.unsafe(
        `SELECT id FROM information_schema.processlist WHERE info LIKE '%${mark}%' AND id <> connection_id()`,
      )
    ).length;
  afterAll(() => admin.close());

  test("every type keeps its exact value", async () => {
    await admin.unsafe(`CREATE OR REPLACE TABLE types (j json, t tinyint(1), u bigint unsigned, z int zerofill,
      d decimal(40,10), db double, ts timestamp(6) NULL, dt datetime(3), da date, zero date, ti time(1), y year,
      bits bit(10), bl blob, tx text CHARACTER SET latin1, vb varbinary(5), e enum('a','b'), s set('x','y'), uu uuid)`);
    await admin.unsafe("SET SESSION time_zone = '+02:00', sql_mode = ''");
    await admin.unsafe(`INSERT INTO types VALUES ('{"a": 1.000000000000000000001,\n "b": []}', 1, 18446744073709551615, 42,
      123456789012345678901234567890.12345, 1.1, '2020-01-01 02:00:00.123456', '2020-01-01 00:00:00.5', '2020-02-29',
      '0000-00-00', '-12:30:00.5', 2020, b'1010', x'ff00', 'grüße "ü"', 'ab', 'b', 'x,y',
      '4e796105-08d2-4bb7-938c-920a48f455f9')`);
    const query =
      "SELECT *, NULL AS none, -0.50 AS neg, 1e300 AS big, '🙂\\n' AS txt, true AS yes, 'NaN' AS nan FROM types";
    expect(await linesOf(ask(query))).toEqual([
      `{"j":{"a": 1.000000000000000000001,  "b": []},"t":1,"u":18446744073709551615,"z":42,` +
        `"d":123456789012345678901234567890.1234500000,"db":1.1,"ts":"2020-01-01T00:00:00.123456Z",` +
        `"dt":"2020-01-01T00:00:00.500","da":"2020-02-29","zero":null,"ti":"-12:30:00.5","y":2020,"bits":10,` +
        `"bl":"/wA=","tx":"grüße \\"ü\\"","vb":"YWI=","e":"b","s":"x,y","uu":"4e796105-08d2-4bb7-938c-920a48f455f9",` +
        `"none":null,"neg":-0.50,"big":1e300,"txt":"🙂\\n","yes":1,"nan":"NaN"}`,
    ]);
  });

  test("columns, count and order come from the query", async () => {
    const connector = ask("SELECT seq AS n, 'x' AS `a ``b``` FROM seq_1_to_5000 ORDER BY seq DESC; -- all");
    await connector.test(quiet());
    expect(await connector.columns(quiet())).toEqual(["n", "a `b`"]);
    expect(await connector.count(quiet())).toBe(5000);
    const rows = await rowsOf(connector);
    expect(rows.map(({ n }) => n)).toEqual(Array.from({ length: 5000 }, (_, i) => 5000 - i));
    expect(rows[0]).toEqual({ n: 5000, "a `b`": "x" });
  });

  test("a table that the user may not read is refused", async () => {
    await admin.unsafe("CREATE OR REPLACE TABLE closed (a int)");
    await admin.unsafe("CREATE OR REPLACE USER reader IDENTIFIED BY 'rr'");
    await admin.unsafe("GRANT SELECT ON verk.types TO reader");
    const forbidden = await refused("SELECT * FROM closed", { credentials: { user: "reader", password: "rr" } });
    expect(forbidden).toMatchObject({ code: "unauthorized", param: "/credentials" });
  });

  test("nothing that writes gets through: the server itself refuses it", async () => {
    await admin.unsafe("CREATE OR REPLACE TABLE kept (a int) ENGINE = InnoDB");
    await admin.unsafe("CREATE OR REPLACE TABLE kept_plain (a int) ENGINE = MyISAM");
    await admin.unsafe("INSERT INTO kept VALUES (1)");
    await admin.unsafe("INSERT INTO kept_plain VALUES (1)");
    for (const table of ["kept", "kept_plain"])
      await admin.unsafe(
        `CREATE OR REPLACE FUNCTION wipe_${table}() RETURNS int MODIFIES SQL DATA BEGIN DELETE FROM ${table}; RETURN 1; END`,
      );
    const file = join(tempDir(), "stolen");
    for (const query of [
      "SELECT wipe_kept() AS a",
      "SELECT wipe_kept_plain() AS a",
      "SELECT * FROM kept FOR UPDATE",
      "DELETE FROM kept RETURNING a",
      `SELECT a INTO OUTFILE '${file}' FROM kept`,
      `SELECT 1 AS a INTO DUMPFILE '${file}'`,
      `SELECT a FROM kept /*! INTO OUTFILE '${file}' */`,
      "SELECT 1 AS a) q; DELETE FROM kept; SELECT * FROM (SELECT 1 AS a",
      "SELECT 1 AS a /*! ; DELETE FROM kept */",
    ])
      expect(await refused(query)).toMatchObject({ code: "invalid_source", param: "/db_query" });
    expect(existsSync(file)).toBe(false);
    expect(await admin.unsafe("SELECT a FROM kept")).toHaveLength(1);
    expect(await admin.unsafe("SELECT a FROM kept_plain")).toHaveLength(1);
  });

  test("a row that is too long is refused with its number", async () => {
    const query = "SELECT repeat('x', IF(seq = 777, 2000000, 10)) AS a FROM seq_1_to_1000";
    const error = await refused(query, { limits: { rowBytes: 1_000_000 } });
    expect(error).toMatchObject({ code: "invalid_rows" });
    expect(error.message).toContain("Row 777 is longer than 1000000 bytes");
  });

  test("cancelling stops the read, also on the server", async () => {
    const stop = new AbortController();
    const reading = linesOf(ask("SELECT sleep(60) AS cancelled_here FROM seq_1_to_3"), stop.signal).catch(
      (error: unknown) => error,
    );
    await until("it sleeps", async () => (await running("cancelled_here")) === 1);
    stop.abort(new Error("enough"));
    expect(await reading).toMatchObject({ message: "enough" });
    await until("it sleeps no more", async () => (await running("cancelled_here")) === 0);
  });

  test("a reader that stops leaves nothing running", async () => {
    const query = "SELECT seq AS left_here, repeat('x', 1000) AS text FROM seq_1_to_1000000";
    for await (const { lines } of ask(query).rows({ signal: quiet() })) {
      expect(lines.length).toBeGreaterThan(0);
      expect(await running("left_here")).toBe(1);
      break;
    }
    await until("it is gone", async () => (await running("left_here")) === 0);
  });

  test("rows of megabytes are not buffered by the hundred", async () => {
    const db_query = "SELECT repeat('x', 3000000) AS text FROM seq_1_to_200";
    const reading = await readAside({ ...source, db_query }, credentials);
    expect(reading.rows).toBe(200);
    expect(reading.growthBytes).toBeLessThan(400e6);
  }, 120_000);
});
