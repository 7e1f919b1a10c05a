// tier: all (real databases and stores)
import { afterAll, expect, test } from "bun:test";
import { SQL } from "bun";
import { createDialer } from "../../src/workers/connector/dialer.ts";
import { open } from "../../src/workers/connector/postgres.ts";
import { until } from "../harness.ts";
import { describeWith, postgres } from "../servers/servers.ts";
import { LIMITS, linesOf, quiet, readAside, refusal, rowsOf } from "./sql_kit.ts";
import { sqlReaders, sqlSourceTests } from "./sql_source_suite.ts";

describeWith("postgres", postgres, (server) => {
  const bench = { type: "postgres", open, server } as const;
  sqlSourceTests(bench, {
    empty: "SELECT 1 AS a WHERE false",
    asleep: "SELECT pg_sleep(86400)::text AS a",
    endless: "SELECT pg_sleep(30)::text AS a",
    long: "SELECT repeat('x', 1000) AS a FROM generate_series(1, 20000)",
    million: "SELECT g AS id, repeat('x', 100) AS text FROM generate_series(1, 1000000) g",
    refused: [
      ["SELECT * FROM no_such_table", "not_found", "no_such_table"],
      ["SELECT * FROM no_such_schema.t", "not_found", "no_such_schema"],
      ["SELECT no_such_column FROM pg_class", "invalid_source", "no_such_column"],
      ["SELECT 1 AS a, 2 AS a", "invalid_source", "AS"],
      ["SELECT FROM WHERE", "invalid_source", "syntax"],
      ["SELECT 1 / 0 AS a", "invalid_source", "division by zero"],
      ["SELECT 'pg s3cret'::int AS a", "invalid_source", "[redacted]"],
    ],
  });

  const { source, credentials, ask, refused } = sqlReaders(bench);
  const admin = new SQL(server.url, { max: 1 });
  const sessions = async (condition: string) =>
    (await admin.unsafe(`SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND ${condition}`)).length;
  afterAll(() => admin.close());

  test("every type keeps its exact value", async () => {
    const query = `SELECT 1.50::numeric AS n, 'NaN'::numeric AS nan, 123456789012345678901234567890.12345::numeric AS wide,
      9007199254740993::bigint AS b, 1.1::real AS r, 1e300::float8 AS f, 'Infinity'::float8 AS inf, true AS yes,
      '{"a": 1.000000000000000000001,\n"b":[]}'::json AS j, '{"a": 1.10}'::jsonb AS jb, NULL::text AS none,
      '2020-01-01 10:00:00.123456+02'::timestamptz AS tz, '2020-01-01 10:00:00.5'::timestamp AS ts, '2020-02-29'::date AS d,
      '\\xdeadbeef'::bytea AS bytes, ARRAY['\\xff'::bytea, NULL] AS byte_list, ARRAY[[1,2],[3,NULL]] AS list,
      '{NaN,1.50}'::numeric[] AS numbers, '{2020-01-01 00:00:00+00}'::timestamptz[] AS times, ARRAY['a"b', E'c\\nd'] AS texts,
      '4e796105-08d2-4bb7-938c-920a48f455f9'::uuid AS u, '1 day 2 hours'::interval AS i, '12:30'::time AS t,
      E'zwei\\nZeilen "ü" 🙂' AS txt, ROW(1, 'x') AS pair, '[1,3)'::int4range AS span`;
    expect(await linesOf(ask(query))).toEqual([
      `{"n":1.50,"nan":null,"wide":123456789012345678901234567890.12345,"b":9007199254740993,"r":1.1,"f":1e+300,` +
        `"inf":null,"yes":true,"j":{"a": 1.000000000000000000001, "b":[]},"jb":{"a": 1.10},"none":null,` +
        `"tz":"2020-01-01T08:00:00.123456Z","ts":"2020-01-01T10:00:00.5","d":"2020-02-29","bytes":"3q2+7w==",` +
        `"byte_list":["/w==",null],"list":[[1,2],[3,null]],"numbers":[null,1.50],"times":["2020-01-01T00:00:00Z"],` +
        `"texts":["a\\"b","c\\nd"],"u":"4e796105-08d2-4bb7-938c-920a48f455f9","i":"P1DT2H","t":"12:30:00",` +
        `"txt":"zwei\\nZeilen \\"ü\\" 🙂","pair":{"f1":1,"f2":"x"},"span":"[1,3)"}`,
    ]);
  });

  test("bytes of any length are base64 without line breaks", async () => {
    const [row] = await rowsOf(ask("SELECT decode(repeat('00ff', 300), 'hex') AS b"));
    expect(Buffer.from(row.b, "base64")).toEqual(Buffer.from("00ff".repeat(300), "hex"));
  });

  test("columns, count and order come from the query for all column names", async () => {
    const query = `SELECT g AS "verk", -g AS "q", g AS "lines", 'x' AS "a ""b""" FROM generate_series(1, 5000) g ORDER BY g DESC -- all`;
    const connector = ask(`${query} ;\n-- really`);
    await connector.test(quiet());
    expect(await connector.columns(quiet())).toEqual(["verk", "q", "lines", 'a "b"']);
    expect(await connector.count(quiet())).toBe(5000);
    const rows = await rowsOf(connector);
    expect(rows.map(({ verk }) => verk)).toEqual(Array.from({ length: 5000 }, (_, i) => 5000 - i));
    expect(rows[0]).toEqual({ verk: 5000, q: -5000, lines: 5000, 'a "b"': "x" });
  });

  test("unqualified names are resolved in the given schema", async () => {
    await admin.unsafe(`CREATE SCHEMA IF NOT EXISTS "My ""lab"""; DROP TABLE IF EXISTS "My ""lab""".inside;
      CREATE TABLE "My ""lab""".inside AS SELECT 7 AS seven`);
    const db_connection = { host: "127.0.0.1", port: server.port, database: "postgres", schema: 'My "lab"' };
    const there = {
      source: { source_type: "postgres" as const, db_connection },
      credentials: { ...credentials, username: "verk" },
    };
    expect(await rowsOf(ask("SELECT * FROM inside", there))).toEqual([{ seven: 7 }]);
  });

  test("a table that the user may not read is refused", async () => {
    await admin.unsafe(
      "DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN PASSWORD 'r'; DROP TABLE IF EXISTS closed; CREATE TABLE closed (a int)",
    );
    const forbidden = await refused("SELECT * FROM closed", { credentials: { user: "reader", password: "r" } });
    expect(forbidden).toMatchObject({ code: "unauthorized", param: "/credentials" });
  });

  test("nothing that writes gets through: the server itself refuses it", async () => {
    await admin.unsafe(`DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT 1 AS a; CREATE SEQUENCE IF NOT EXISTS ticks;
      CREATE OR REPLACE FUNCTION wipe() RETURNS int LANGUAGE plpgsql AS $$ BEGIN DELETE FROM kept; RETURN 1; END $$;
      CREATE OR REPLACE FUNCTION wipe_again() RETURNS int LANGUAGE plpgsql AS
        $$ BEGIN PERFORM set_config('transaction_read_only', 'off', true); DELETE FROM kept; RETURN 1; END $$`);
    for (const query of [
      "WITH gone AS (DELETE FROM kept RETURNING *) SELECT * FROM gone",
      "SELECT wipe() AS a",
      "SELECT wipe_again() AS a",
      "SELECT nextval('ticks') AS a",
      "SELECT * FROM kept FOR UPDATE",
      "DELETE FROM kept RETURNING a",
      "SELECT a INTO copied FROM kept",
      "SELECT 1 AS a) q LIMIT $1; DELETE FROM kept; SELECT * FROM (SELECT 1 AS a",
    ])
      expect(await refused(query)).toMatchObject({ code: "invalid_source", param: "/db_query" });
    expect(await admin`SELECT a FROM kept`).toHaveLength(1);
  });

  test("a second statement that our own parser accepts is refused by the server", async () => {
    await admin.unsafe("DROP TABLE IF EXISTS kept2; CREATE TABLE kept2 AS SELECT 1 AS a");
    const sneaky = "SELECT 1 AS a) q LIMIT $1; DELETE FROM kept2; SELECT * FROM (SELECT 1 AS a";
    const { PostgresSession } = await import("../../src/workers/connector/sql/postgres/session.ts");
    const { readServer } = await import("../../src/workers/connector/sql/server.ts");
    const dialer = createDialer({ allow_private: true, allow: ["127.0.0.1/32"], ca_file: "" }, LIMITS);
    const opening = { source: { ...source, db_query: "" }, credentials, dialer, limits: LIMITS, hubEndpoint: "" };
    const kind = { schemes: ["postgres"], port: 5432, fields: [] };
    const place = { server: readServer(opening, kind), dialer, limits: LIMITS, hide: (text: string) => text };
    await using session = await PostgresSession.open(place, quiet());
    const error = await refusal(() => session.run(`SELECT * FROM (${sneaky}\n) q LIMIT $1`, [0]));
    expect(error.message).toContain("multiple commands");
    expect(await admin`SELECT a FROM kept2`).toHaveLength(1);
  });

  test("a row that is too long is refused with its number, and is not sent", async () => {
    const query = "SELECT repeat('x', CASE g WHEN 777 THEN 2000000 ELSE 10 END) AS a FROM generate_series(1, 1000) g";
    const error = await refused(query, { limits: { rowBytes: 1_000_000 } });
    expect(error).toMatchObject({ code: "invalid_rows" });
    expect(error.message).toContain("Row 777 has 2000008 bytes");
  });

  test("cancelling stops the read, also on the server", async () => {
    const stop = new AbortController();
    const query = "SELECT pg_sleep(60)::text AS cancelled_here FROM generate_series(1, 3)";
    const reading = linesOf(ask(query), stop.signal).catch((error: unknown) => error);
    await until("it sleeps", async () => (await sessions("wait_event = 'PgSleep'")) === 1);
    stop.abort(new Error("enough"));
    expect(await reading).toMatchObject({ message: "enough" });
    await until("it sleeps no more", async () => (await sessions("wait_event = 'PgSleep'")) === 0);
  });

  test("a reader that stops leaves no session behind", async () => {
    for await (const { lines } of ask("SELECT g AS left_here FROM generate_series(1, 1000000) g").rows({
      signal: quiet(),
    })) {
      expect(lines.length).toBeGreaterThan(0);
      expect(await sessions("query LIKE 'FETCH%'")).toBe(1);
      break;
    }
    await until("it is gone", async () => (await sessions("query LIKE 'FETCH%'")) === 0);
  });

  test("long rows after short ones do not fill the memory", async () => {
    const db_query =
      "SELECT repeat('x', CASE WHEN g < 3000 THEN 10 ELSE 200000 END) AS text FROM generate_series(1, 5000) g";
    const reading = await readAside({ ...source, db_query }, credentials);
    expect(reading.rows).toBe(5000);

    expect(reading.growthBytes).toBeLessThan(600e6);
  }, 120_000);
});
