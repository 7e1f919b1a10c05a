import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import type { SourceType } from "../../src/lib/source.ts";
import { createDialer } from "../../src/workers/connector/dialer.ts";
import type { Open } from "../../src/workers/connector/types.ts";
import { cuttingProxy } from "../servers/proxy.ts";
import { LIMITS, LOOPBACK, linesOf, NOTHING_ALLOWED, nameless, openWith, type QueryOptions, quiet, readAside, refusal, rowsOf } from "./sql_kit.ts"; // biome-ignore format: one line

type Server = { port: number; user: string; password: string; database: string; caFile: string };
type Bench = { type: SourceType & ("mysql" | "postgres"); open: Open; server: Server };

/** Readers of one database: `ask` opens a query, `refused` reads it and returns the error. */
export function sqlReaders({ type, open, server }: Bench) {
  const source = {
    source_type: type,
    db_connection: `${type}://${server.user}@127.0.0.1:${server.port}/${server.database}`,
  };
  const credentials = { password: server.password };
  const ask = (query: string, more: Partial<QueryOptions> = {}) =>
    openWith(open, { source, query, credentials, ...more });
  const refused = (query: string, more: Partial<QueryOptions> = {}) =>
    refusal(() => linesOf(ask(query, more)), [server.password, encodeURIComponent(server.password)]);
  return { source, credentials, ask, refused };
}

type Queries = {
  /** No rows, one column `a`. */
  empty: string;
  /** One column `a`; sleeps longer than any test waits. */
  asleep: string;
  /** Runs for longer than 200 ms. */
  endless: string;
  /** 20,000 rows of 1,000 characters. */
  long: string;
  /** A million rows of 100 characters. */
  million: string;
  refused: readonly (readonly [query: string, code: string, text: string])[];
};

/** Tests that every SQL database must pass, over any protocol. */
export function sqlSourceTests(bench: Bench, queries: Queries) {
  const { server } = bench;
  const { source, credentials, ask, refused } = sqlReaders(bench);
  const through = (port: number) => ({
    ...source,
    db_connection: source.db_connection.replace(`:${server.port}/`, `:${port}/`),
  });

  test("reading the columns and a test run no part of the query", async () => {
    const connector = ask(queries.asleep);
    await connector.test(quiet());
    expect(await connector.columns(quiet())).toEqual(["a"]);
  });

  test("an empty result is no rows", async () => {
    const connector = ask(queries.empty);
    expect(await linesOf(connector)).toEqual([]);
    expect(await connector.count(quiet())).toBe(0);
    expect(await connector.columns(quiet())).toEqual(["a"]);
  });

  test.each(queries.refused)("%s is refused as %s", async (query, code, text) => {
    const error = await refused(query);
    expect(error).toMatchObject({ code, param: "/db_query" });
    expect(error.message).toContain(text);
  });

  test("a wrong password and a wrong database are distinguished", async () => {
    const marked = "m4rked-wrong-password";
    const wrong = await refusal(() => linesOf(ask("SELECT 1 AS a", { credentials: { password: marked } })), [marked]);
    expect(wrong).toMatchObject({ code: "unauthorized", param: "/credentials/password" });
    const elsewhere = { ...source, db_connection: source.db_connection.replace(/\/\w+$/, "/nowhere") };
    expect(await refused("SELECT 1 AS a", { source: elsewhere })).toMatchObject({
      code: "not_found",
      param: "/db_connection",
    });
  });

  test("a statement that takes too long is stopped with its limit", async () => {
    const error = await refused(queries.endless, { limits: { statementMs: 200 } });
    expect(error).toMatchObject({ code: "broken", param: "/db_query" });
    expect(error.message).toContain("200 ms (connectors.statement_timeout_ms)");
  });

  test("a connection that is cut in the middle is an error that says so", async () => {
    using proxy = cuttingProxy(server.port);
    proxy.cutAfter(3_000_000);
    const error = await refused(queries.long, { source: through(proxy.port) });
    expect(error.code).toBe("broken");
    expect(error.message).toContain("was lost");
  });

  test("a private address is refused unless the operator allows it", async () => {
    const error = await refused("SELECT 1 AS a", { dialer: createDialer(NOTHING_ALLOWED, LIMITS) });
    expect(error.code).toBe("address_refused");
    expect(error.message).toContain("network.allow");
    expect(await rowsOf(ask("SELECT 1 AS a"))).toEqual([{ a: 1 }]);
  });

  test("a closed port and a silent one are unreachable", async () => {
    using silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
    const closed = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
    closed.stop(true);
    expect(await refused("SELECT 1 AS a", { source: through(closed.port) })).toMatchObject({ code: "unreachable" });
    const quick = { source: through(silent.port), limits: { connectMs: 1000 } };
    expect(await refused("SELECT 1 AS a", quick)).toMatchObject({ code: "unreachable" });
  });

  test("a million rows are read in flat memory", async () => {
    const reading = await readAside({ ...source, db_query: queries.million }, credentials);
    expect(reading.rows).toBe(1_000_000);
    expect(reading.growthBytes).toBeLessThan(150e6);
  }, 120_000);
}

type Way = { host: string; sslmode?: string; ca?: boolean; operator?: boolean };
type Tls = {
  /** A query that tells if its own connection is encrypted, and its row in both cases. */
  query: string;
  encrypted: string;
  plain: string;
  /** Parts of the error for a certificate with another name, and for an unknown authority. */
  otherName: string;
  unknown: string;
};

/** The certificate is for hooks.example and 127.0.0.1; every .example name resolves to 127.0.0.1. */
export function sqlTlsTests({ type, open, server }: Bench, { query, encrypted, plain, otherName, unknown }: Tls) {
  const ca_cert = readFileSync(server.caFile, "utf8");
  const connect = ({ host, sslmode, ca = false, operator = false }: Way) => {
    const { port, database, user } = server;
    return linesOf(
      openWith(open, {
        source: { source_type: type, db_connection: { host, port, database, user, ...(sslmode ? { sslmode } : {}) } },
        query,
        credentials: { password: server.password, ...(ca ? { ca_cert } : {}) },
        dialer: nameless(createDialer({ ...LOOPBACK, ca_file: operator ? server.caFile : "" }, LIMITS)),
      }),
    );
  };

  test.each<[Way, string]>([
    [{ host: "127.0.0.1", sslmode: "disable" }, plain],
    [{ host: "127.0.0.1" }, encrypted],
    [{ host: "wrong.example", sslmode: "prefer" }, encrypted],
    [{ host: "wrong.example", sslmode: "require" }, encrypted],
    [{ host: "wrong.example", sslmode: "verify-ca", ca: true }, encrypted],
    [{ host: "127.0.0.1", sslmode: "verify-ca", ca: true }, encrypted],
    [{ host: "hooks.example", sslmode: "verify-full", ca: true }, encrypted],
    [{ host: "hooks.example", sslmode: "verify-full", operator: true }, encrypted],
    [{ host: "hooks.example", ca: true }, encrypted],
  ])("%o is accepted", async (way, expected) => {
    expect(await connect(way)).toEqual([expected]);
  });

  test.each<[Way, string]>([
    [{ host: "wrong.example", sslmode: "verify-full", ca: true }, otherName],
    [{ host: "wrong.example", sslmode: "verify-full", operator: true }, otherName],
    [{ host: "wrong.example", ca: true }, otherName], // a given authority is always used
    [{ host: "hooks.example", sslmode: "verify-full" }, unknown],
    [{ host: "hooks.example", sslmode: "verify-ca" }, unknown],
  ])("%o is refused", async (way, text) => {
    const error = await refusal(() => connect(way), [server.password]);
    expect(error).toMatchObject({ code: "unreachable", param: "/db_connection" });
    expect(error.message).toContain(text);
  });
  return { connect };
}
