import { expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { createDialer } from "../../src/workers/connector/dialer.ts";
import { timestamp } from "../../src/workers/connector/sql/bigquery/values.ts";
import { until } from "../harness.ts";
import { cuttingProxy } from "../servers/proxy.ts";
import { ask, type Fake, NUMBERS } from "./bigquery_kit.ts";
import { type FakeTable, fakeBigquery, PROJECT } from "./fake_bigquery.ts";
import { LIMITS, linesOf, NOTHING_ALLOWED, type QueryOptions, quiet, refusal, rowsOf } from "./sql_kit.ts";

const KEY_LINES = (fake: Fake) => fake.account.private_key.split("\n").filter((line) => line.length > 40);
const refused = (fake: Fake, query: string, more: Partial<QueryOptions> & { endpoint?: string } = {}) =>
  refusal(() => linesOf(ask(fake, query, more)), [...KEY_LINES(fake), "ya29.", "eyJ"]);

const TYPES: FakeTable = {
  fields: [
    { name: "i", type: "INTEGER" },
    { name: "f", type: "FLOAT" },
    { name: "nan", type: "FLOAT64" },
    { name: "inf", type: "FLOAT" },
    { name: "n", type: "NUMERIC" },
    { name: "bn", type: "BIGNUMERIC" },
    { name: "b", type: "BOOLEAN" },
    { name: "s", type: "STRING" },
    { name: "by", type: "BYTES" },
    { name: "ts", type: "TIMESTAMP" },
    { name: "d", type: "DATE" },
    { name: "dt", type: "DATETIME" },
    { name: "t", type: "TIME" },
    { name: "j", type: "JSON" },
    {
      name: "r",
      type: "RECORD",
      fields: [
        { name: "a", type: "INTEGER" },
        { name: "b", type: "STRING", mode: "REPEATED" },
      ],
    },
    { name: "l", type: "INTEGER", mode: "REPEATED" },
    { name: "rl", type: "RECORD", mode: "REPEATED", fields: [{ name: "z", type: "NUMERIC" }] },
    { name: "none", type: "STRING" },
  ],
  total: 1,
  row: () =>
    [
      "9223372036854775807",
      "1.0E10",
      "NaN",
      "-Infinity",
      "99999999999999999999999999999.999999999",
      "578960446186580977117854925043439539266.34992332820282019728792003956564819967",
      "true",
      'zwei\nZeilen "ü" 🙂',
      "/wA=",
      "1577865600123456",
      "2020-02-29",
      "2020-01-01T10:00:00.5",
      "10:00:00",
      '{"a": 1.000000000000000000001}',
      { f: [{ v: "1" }, { v: [{ v: "x" }] }] },
      [{ v: "1" }, { v: "2" }],
      [{ v: { f: [{ v: "1.50" }] } }],
      null,
    ].map((v) => ({ v })),
};

test("every type keeps its exact value", async () => {
  using fake = fakeBigquery();
  fake.answers.set("SELECT types", TYPES);
  expect(await linesOf(ask(fake, "SELECT types"))).toEqual([
    `{"i":9223372036854775807,"f":1.0E10,"nan":null,"inf":null,"n":99999999999999999999999999999.999999999,` +
      `"bn":578960446186580977117854925043439539266.34992332820282019728792003956564819967,"b":true,` +
      `"s":"zwei\\nZeilen \\"ü\\" 🙂","by":"/wA=","ts":"2020-01-01T08:00:00.123456Z","d":"2020-02-29",` +
      `"dt":"2020-01-01T10:00:00.5","t":"10:00:00","j":{"a": 1.000000000000000000001},"r":{"a":1,"b":["x"]},` +
      `"l":[1,2],"rl":[{"z":1.50}],"none":null}`,
  ]);
});

test("moments before 1970 and far from it are exact", () => {
  expect(timestamp("-1")).toBe("1969-12-31T23:59:59.999999Z");
  expect(timestamp("-62135596800000000")).toBe("0001-01-01T00:00:00Z");
  expect(timestamp("253402300799999999")).toBe("9999-12-31T23:59:59.999999Z");
  expect(timestamp("1.577865600123456E9")).toBe("2020-01-01T08:00:00.123456Z"); // seconds, from an older server
});

test("a slow job is waited for, and its pages are followed to the end", async () => {
  using fake = fakeBigquery();
  fake.answers.set("SELECT numbers", { ...NUMBERS, slow: 3 });
  const connector = ask(fake, "SELECT numbers;");
  expect(await connector.columns(quiet())).toEqual(["id", "text"]);
  expect(await connector.count(quiet())).toBe(25_000);
  const rows = await rowsOf(connector);
  expect(rows.map(({ id }) => id)).toEqual(Array.from({ length: 25_000 }, (_, i) => i + 1));
  expect(fake.seen.filter(({ path }) => path.includes("pageToken=")).length).toBe(2);
  const begun = fake.seen.find(({ path }) => path.endsWith("/queries"));
  expect(begun?.body).toMatchObject({ useLegacySql: false, jobTimeoutMs: "60000" });
  expect(fake.seen.every(({ path }) => !path.includes("/queries/") || path.includes("location=EU"))).toBe(true);
  expect([...fake.jobs.values()].some(({ cancelled }) => cancelled)).toBe(false);
});

test("a test and the columns are a dry run, and one token serves for all", async () => {
  using fake = fakeBigquery();
  fake.answers.set("SELECT numbers", NUMBERS);
  const connector = ask(fake, "SELECT numbers");
  await connector.test(quiet());
  await connector.columns(quiet());
  expect(fake.jobs.size).toBe(0);
  expect(fake.seen.map(({ path }) => path)).toEqual(Array(2).fill(`/bigquery/v2/projects/${PROJECT}/jobs`));
});

test("an empty result is no rows", async () => {
  using fake = fakeBigquery();
  fake.answers.set("SELECT nothing", { ...NUMBERS, total: 0 });
  const connector = ask(fake, "SELECT nothing");
  expect(await linesOf(connector)).toEqual([]);
  expect(await connector.count(quiet())).toBe(0);
});

test("a request that the server asks to delay is retried later", async () => {
  using fake = fakeBigquery();
  fake.answers.set("SELECT numbers", NUMBERS);
  fake.stumble(2);
  expect(await linesOf(ask(fake, "SELECT numbers"))).toHaveLength(25_000);
});

test("an access token is used as it is; a wrong one, and a wrong key, are unauthorized", async () => {
  using fake = fakeBigquery();
  fake.answers.set("SELECT numbers", { ...NUMBERS, total: 1 });
  fake.accept("ya29.mine");
  expect(await linesOf(ask(fake, "SELECT numbers", { credentials: { access_token: "ya29.mine" } }))).toHaveLength(1);
  const marked = "m4rked-wrong-token";
  const wrong = await refusal(
    () => linesOf(ask(fake, "SELECT numbers", { credentials: { access_token: marked } })),
    [marked],
  );
  expect(wrong).toMatchObject({ code: "unauthorized", param: "/credentials" });
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const private_key = privateKey.export({ type: "pkcs8", format: "pem" });
  const other = { service_account: { ...fake.account, private_key } };
  const error = await refused(fake, "SELECT numbers", { credentials: other });
  expect(error).toMatchObject({ code: "unauthorized", param: "/credentials/service_account" });
  expect(error.message).toContain("invalid_grant");
});

test.each([
  [{}, "/credentials", "service_account"],
  [{ service_account: "no json m4rked" }, "/credentials/service_account", "not JSON"],
  [{ service_account: { client_email: "a@b" } }, "/credentials/service_account", "private_key"],
  [{ service_account: { client_email: "a@b", private_key: "m4rked" } }, "/credentials/service_account", "PEM"],
])("credentials %o are refused", async (credentials, param, text) => {
  using fake = fakeBigquery();
  const error = await refusal(() => linesOf(ask(fake, "SELECT 1", { credentials })), ["m4rked"]);
  expect(error).toMatchObject({ code: "invalid_source", param });
  expect(error.message).toContain(text);
});

test("the key file itself may be the credentials, and names the project", async () => {
  using fake = fakeBigquery();
  fake.answers.set("SELECT numbers", { ...NUMBERS, total: 1 });
  const source = { source_type: "bigquery" as const, db_connection: { endpoint: fake.url } };
  expect(await linesOf(ask(fake, "SELECT numbers", { credentials: fake.account, source }))).toHaveLength(1);
});

test("a statement that is no SELECT is refused by its kind before it runs", async () => {
  using fake = fakeBigquery();
  fake.answers.set("WITH a AS (SELECT 1) SELECT script", { ...NUMBERS, statementType: "SCRIPT" });
  const error = await refused(fake, "WITH a AS (SELECT 1) SELECT script");
  expect(error).toMatchObject({ code: "invalid_source", param: "/db_query" });
  expect(await refused(fake, "DELETE FROM t")).toMatchObject({ code: "invalid_source" });
  expect(await refused(fake, "SELECT 1; DELETE FROM t")).toMatchObject({ code: "invalid_source" });
  expect(fake.jobs.size).toBe(0);
});

test.each([
  ["notFound", 404, "not_found", "/db_query"],
  ["accessDenied", 403, "unauthorized", "/credentials"],
  ["invalidQuery", 400, "invalid_source", "/db_query"],
  ["bytesBilledLimitExceeded", 400, "invalid_source", "/db_query"],
  ["quotaExceeded", 403, "unreachable", null],
])("%s is reported with its own code", async (reason, status, code, param) => {
  using fake = fakeBigquery();
  fake.answers.set("SELECT x", { status, reason, message: "Not found: Table p:d.t, said to m4rked" });
  const credentials = { service_account: { ...fake.account, private_key_id: "key-1" }, note: undefined };
  const error = await refusal(() => linesOf(ask(fake, "SELECT x", { credentials })));
  expect(error).toMatchObject({ code, param });
  expect(error.message).toContain("Table p:d.t");
});

test("a duplicate column is refused with advice", async () => {
  using fake = fakeBigquery();
  fake.answers.set("SELECT a, a", {
    ...NUMBERS,
    fields: [
      { name: "a", type: "STRING" },
      { name: "a", type: "STRING" },
    ],
  });
  expect((await refused(fake, "SELECT a, a")).message).toContain("AS");
});

test("cancelling stops the read and the job", async () => {
  using fake = fakeBigquery();
  fake.answers.set("SELECT numbers", { ...NUMBERS, slow: 1_000_000 });
  const stop = new AbortController();
  const reading = linesOf(ask(fake, "SELECT numbers"), stop.signal).catch((error: unknown) => error);
  await until("it runs", () => fake.seen.some(({ path }) => path.includes("/queries/job_")));
  stop.abort(new Error("enough"));
  expect(await reading).toMatchObject({ message: "enough" });
  expect([...fake.jobs.values()].map(({ cancelled }) => cancelled)).toEqual([true]);
});

test("a job that takes too long is cancelled with its limit", async () => {
  using fake = fakeBigquery();
  fake.answers.set("SELECT numbers", { ...NUMBERS, slow: 1_000_000 });
  const error = await refused(fake, "SELECT numbers", { limits: { statementMs: 200 } });
  expect(error).toMatchObject({ code: "broken", param: "/db_query" });
  expect(error.message).toContain("200 ms (connectors.statement_timeout_ms)");
  expect([...fake.jobs.values()].map(({ cancelled }) => cancelled)).toEqual([true]);
});

test("a connection that is cut in the middle is an error that says so", async () => {
  using fake = fakeBigquery();
  using proxy = cuttingProxy(fake.port);
  fake.answers.set("SELECT numbers", NUMBERS);
  proxy.cutAfter(2_000_000, { refuse: true });
  const error = await refused(fake, "SELECT numbers", { endpoint: `http://127.0.0.1:${proxy.port}` });
  expect(error.code).toBe("broken");
});

test.each([
  ["the same page for ever", { next: "3", total: 3 }, "returned the same page token twice"],
  ["more rows than there are", { next: "0", total: 10 }, "sent 20 of 10 rows"],
])("a read of %s fails", async (_, behaviour, message) => {
  using fake = fakeBigquery();
  fake.answers.set("SELECT numbers", { ...NUMBERS, ...behaviour });
  const error = await refused(fake, "SELECT numbers");
  expect(error).toMatchObject({ code: "broken", message: expect.stringContaining(message) });
});

test("a private address is refused unless the operator allows it", async () => {
  using fake = fakeBigquery();
  const error = await refused(fake, "SELECT 1", { dialer: createDialer(NOTHING_ALLOWED, LIMITS) });
  expect(error.code).toBe("address_refused");
});

test("a row that is too long is refused with its number", async () => {
  using fake = fakeBigquery();
  const row = (i: number) => [{ v: String(i) }, { v: "x".repeat(i === 776 ? 2000 : 10) }];
  fake.answers.set("SELECT numbers", { ...NUMBERS, total: 1000, row });
  const error = await refused(fake, "SELECT numbers", { limits: { rowBytes: 1500 } });
  expect(error).toMatchObject({ code: "invalid_rows" });
  expect(error.message).toContain("Row 777 ");
});
