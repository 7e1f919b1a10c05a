import { expect, test } from "bun:test";
import { open } from "../../src/workers/connector/bigquery.ts";
import { createDialer, type Dialer } from "../../src/workers/connector/dialer.ts";
import { googleToken, readServiceAccount } from "../../src/workers/connector/google_token.ts";
import { timestamp } from "../../src/workers/connector/sql/bigquery/values.ts";
import { bigqueryLocal, describeWith, judge } from "../servers/servers.ts";
import { ask, NUMBERS } from "./bigquery_kit.ts";
import { type FakeTable, fakeBigquery, PROJECT } from "./fake_bigquery.ts";
import { LIMITS, linesOf, NOTHING_ALLOWED, openWith, quiet, readAside, refusal, rowsOf } from "./sql_kit.ts";

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

test("a server that asks for patience gets some", async () => {
  using fake = fakeBigquery();
  fake.answers.set("SELECT numbers", NUMBERS);
  fake.stumble(2);
  expect(await linesOf(ask(fake, "SELECT numbers"))).toHaveLength(25_000);
});

test("the key file itself may be the credentials, and names the project", async () => {
  using fake = fakeBigquery();
  fake.answers.set("SELECT numbers", { ...NUMBERS, total: 1 });
  const source = { source_type: "bigquery" as const, db_connection: { endpoint: fake.url } };
  expect(await linesOf(ask(fake, "SELECT numbers", { credentials: fake.account, source }))).toHaveLength(1);
});

test("a million rows are read in flat memory", async () => {
  using fake = fakeBigquery();
  fake.answers.set("SELECT numbers", { ...NUMBERS, total: 1_000_000 });
  const db_connection = { project_id: PROJECT, endpoint: fake.url };
  const reading = await readAside(
    { source_type: "bigquery", db_connection, db_query: "SELECT numbers" },
    { service_account: fake.account },
  );
  expect(reading.rows).toBe(1_000_000);
  expect(reading.growthBytes).toBeLessThan(150e6);
}, 120_000);

describeWith(
  "Google's client library",
  () => judge("@google-cloud/bigquery"),
  ({ BigQuery }) => {
    test("reads the same from the fake as we do", async () => {
      using fake = fakeBigquery();
      fake.answers.set("SELECT numbers", { ...NUMBERS, total: 2500, slow: 1 });
      fake.accept("ya29.theirs");
      const { OAuth2Client } = await judge("google-auth-library");
      const authClient = new OAuth2Client();
      authClient.setCredentials({ access_token: "ya29.theirs" });
      const client = new BigQuery({ projectId: PROJECT, apiEndpoint: fake.url, authClient });
      const [theirs] = await client.query({ query: "SELECT numbers", maxResults: 1000 });
      expect(theirs).toEqual((await rowsOf(ask(fake, "SELECT numbers"))).slice(0, theirs.length));
      expect(theirs.length).toBeGreaterThan(0);
    });
  },
);

const SIGNING = "google-auth-library/build/src/gtoken/jwsSign.js";
describeWith(
  "Google's own signing",
  () => judge(SIGNING),
  ({ getJwsSign }) => {
    test("makes the same assertion of a service account as we do", async () => {
      using fake = fakeBigquery();
      const { token_uri: _none, ...key } = fake.account;
      let ours = "";
      const dialer: Dialer = {
        ...createDialer(NOTHING_ALLOWED, LIMITS),
        fetch: async (url, { body }) => {
          expect(String(url)).toBe("https://oauth2.googleapis.com/token");
          ours = new URLSearchParams(String(body)).get("assertion") ?? "";
          throw new Error("seen");
        },
      };
      const scope = "https://www.googleapis.com/auth/bigquery";
      await googleToken(readServiceAccount(key), scope, dialer)(quiet()).catch(() => {});
      const theirs = getJwsSign({ iss: key.client_email, scope, key: key.private_key });
      const [theirHeader, theirClaims] = partsOf(theirs);
      const [header, claims] = partsOf(ours);
      expect(header).toMatchObject(theirHeader);
      const { iat, exp, ...same } = claims;
      const { iat: theirIat, exp: theirExp, ...asTheirs } = theirClaims;
      expect(same).toEqual(asTheirs);
      expect(exp - iat).toBe(theirExp - theirIat);
    });
  },
);
const partsOf = (jwt: string) =>
  jwt
    .split(".")
    .slice(0, 2)
    .map((part) => JSON.parse(Buffer.from(part, "base64url").toString()));

describeWith("bigquery-local", bigqueryLocal, (server) => {
  const source = {
    source_type: "bigquery" as const,
    db_connection: { project_id: server.projectId, endpoint: server.url },
  };
  const there = (query: string) => openWith(open, { source, query, credentials: { access_token: "any" } });

  test("a real engine's rows come through, in the order of the query", async () => {
    const query =
      "SELECT x, CONCAT('r', CAST(x AS STRING)) AS s, TIMESTAMP '2020-01-01 10:00:00.5+02' AS ts, b'\\xff\\x00' AS b, " +
      "STRUCT(x AS a, [1, 2] AS l) AS r, CAST('nan' AS FLOAT64) AS nan, CAST(NULL AS STRING) AS none " +
      "FROM UNNEST(GENERATE_ARRAY(1, 50)) AS x ORDER BY x DESC";
    const connector = there(query);
    expect(await connector.columns(quiet())).toEqual(["x", "s", "ts", "b", "r", "nan", "none"]);
    expect(await connector.count(quiet())).toBe(50);
    const rows = await rowsOf(connector);
    expect(rows.map(({ x }) => x)).toEqual(Array.from({ length: 50 }, (_, i) => 50 - i));
    expect(rows[0]).toEqual({
      x: 50,
      s: "r50",
      ts: "2020-01-01T08:00:00.5Z",
      b: "/wA=",
      r: { a: 50, l: [1, 2] },
      nan: null,
      none: null,
    });
  }, 120_000);

  test("a table that is not there is an error, and no rows", async () => {
    const error = await refusal(() => linesOf(there("SELECT * FROM no_such.no_such_table")));
    expect(error).toMatchObject({ param: "/db_query" });
    expect(error.message).toContain("no_such_table");
  }, 120_000);
});
