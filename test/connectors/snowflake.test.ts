import { expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { createDialer } from "../../src/workers/connector/dialer.ts";
import { accountInToken, keyPairToken } from "../../src/workers/connector/sql/snowflake/token.ts";
import { until } from "../harness.ts";
import { cuttingProxy } from "../servers/proxy.ts";
import { describeWith, judge } from "../servers/servers.ts";
import { FINGERPRINT, fakeSnowflake, LOCKED_KEY, PAT, PRIVATE_KEY } from "./fake_snowflake.ts";
import { ask, type Fake, type More, NUMBERS } from "./snowflake_kit.ts";
import { LIMITS, linesOf, NOTHING_ALLOWED, quiet, refusal, rowsOf } from "./sql_kit.ts";

const SECRETS = [...PRIVATE_KEY.split("\n").filter((line) => line.length > 40), "eyJ", PAT];
const refused = (fake: Fake, query: string, more: More = {}) => refusal(() => linesOf(ask(fake, query, more)), SECRETS);

const VALUES: readonly [name: string, type: string, value: string | null, json: string][] = [
  ["i", "fixed", "99999999999999999999999999999999999999", "99999999999999999999999999999999999999"],
  ["dec", "fixed", "-1.50", "-1.50"],
  ["r", "real", "1.5e-07", "1.5e-07"],
  ["nan", "real", "NaN", "null"],
  ["inf", "real", "-inf", "null"],
  ["b", "boolean", "true", "true"],
  ["t", "text", 'zwei\nZeilen "ü" 🙂', '"zwei\\nZeilen \\"ü\\" 🙂"'],
  ["d", "date", "18321", '"2020-02-29"'],
  ["old", "date", "-1", '"1969-12-31"'],
  ["tm", "time", "36000.500000000", '"10:00:00.5"'],
  ["ntz", "timestamp_ntz", "1577865600.123456789", '"2020-01-01T08:00:00.123456789"'],
  ["ltz", "timestamp_ltz", "1577865600.000000000", '"2020-01-01T08:00:00Z"'],
  ["tz", "timestamp_tz", "1577865600.500000000 1560", '"2020-01-01T08:00:00.5Z"'],
  ["before", "timestamp_ntz", "-0.250000000", '"1969-12-31T23:59:59.75"'],
  ["v", "variant", '{\n  "a": 1.000000000000000000001\n}', '{   "a": 1.000000000000000000001 }'],
  ["o", "object", "{}", "{}"],
  ["a", "array", "[1, null]", "[1, null]"],
  ["odd", "array", "[undefined]", '"[undefined]"'],
  ["bin", "binary", "FF00", '"/wA="'],
  ["none", "text", null, "null"],
];

test("every type keeps its exact value", async () => {
  using fake = fakeSnowflake();
  const rowType = VALUES.map(([name, type]) => ({ name, type }));
  fake.answers.set("SELECT types", { rowType, total: 1, row: () => VALUES.map(([, , value]) => value) });
  const expected = VALUES.map(([name, , , json]) => `"${name}":${json}`).join(",");
  expect(await linesOf(ask(fake, "SELECT types"))).toEqual([`{${expected}}`]);
});

test("a slow statement is waited for, and its packed partitions are read to the end", async () => {
  using fake = fakeSnowflake();
  fake.answers.set("SELECT numbers", { ...NUMBERS, slow: 3 });
  const connector = ask(fake, "SELECT numbers;");
  expect(await connector.columns(quiet())).toEqual(["ID", "text"]);
  expect(await connector.count(quiet())).toBe(25_000);
  const rows = await rowsOf(connector);
  expect(rows.map(({ ID }) => ID)).toEqual(Array.from({ length: 25_000 }, (_, i) => i + 1));
  const begun = fake.seen.find(({ method }) => method === "POST");
  expect(begun?.body).toMatchObject({ timeout: 60, warehouse: "WH", database: "LAB" });
  expect(begun?.body?.["parameters"]).toMatchObject({ MULTI_STATEMENT_COUNT: "1", TIMEZONE: "UTC" });
  expect([...fake.statements.values()].some(({ cancelled }) => cancelled)).toBe(false);
});

test("a query is proved to be a query before it runs", async () => {
  using fake = fakeSnowflake();
  const call = "WITH p AS PROCEDURE () RETURNS INT LANGUAGE SQL AS $$ BEGIN RETURN 1; END $$ CALL p()";
  expect(await refused(fake, call)).toMatchObject({ code: "invalid_source", param: "/db_query" });
  expect([...fake.statements.values()].map(({ sql }) => sql)).toEqual([`SELECT * FROM (${call}\n) LIMIT 0`]);
  expect(await refused(fake, "CALL wipe()")).toMatchObject({ code: "invalid_source" });
  expect(await refused(fake, "SELECT 1; DELETE FROM t")).toMatchObject({ code: "invalid_source" });
  expect(fake.statements.size).toBe(1);
});

test("an empty result is no rows", async () => {
  using fake = fakeSnowflake();
  fake.answers.set("SELECT nothing", { ...NUMBERS, total: 0 });
  const connector = ask(fake, "SELECT nothing");
  expect(await linesOf(connector)).toEqual([]);
  expect(await connector.count(quiet())).toBe(0);
});

test("a key under a passphrase and a token are accepted", async () => {
  using fake = fakeSnowflake();
  fake.answers.set("SELECT numbers", { ...NUMBERS, total: 1 });
  for (const credentials of [
    { private_key: LOCKED_KEY, private_key_passphrase: "open sesame" },
    { private_key: PRIVATE_KEY, user: "Ann" },
    { token: PAT },
  ])
    expect(await linesOf(ask(fake, "SELECT numbers", { credentials }))).toHaveLength(1);
});

test("a wrong key, user or token is unauthorized", async () => {
  using fake = fakeSnowflake();
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const other = privateKey.export({ type: "pkcs8", format: "pem" });
  for (const credentials of [
    { private_key: other },
    { private_key: PRIVATE_KEY, user: "eve" },
    { token: "m4rked-wrong" },
  ]) {
    const error = await refusal(() => linesOf(ask(fake, "SELECT numbers", { credentials })), [...SECRETS, "m4rked"]);
    expect(error).toMatchObject({ code: "unauthorized", param: "/credentials/private_key" });
  }
});

test.each([
  [{}, "/credentials", "private_key"],
  [{ private_key: "m4rked no key" }, "/credentials/private_key", "PEM"],
  [{ private_key: LOCKED_KEY }, "/credentials/private_key", "passphrase"],
  [{ private_key: LOCKED_KEY, private_key_passphrase: "m4rked" }, "/credentials/private_key", "passphrase"],
  [{ password: "m4rked" }, "/credentials/password", "password"],
])("credentials %# are refused", async (credentials, param, text) => {
  using fake = fakeSnowflake();
  const error = await refusal(() => linesOf(ask(fake, "SELECT 1", { credentials })), ["m4rked"]);
  expect(error).toMatchObject({ code: "invalid_source", param });
  expect(error.message).toContain(text);
});

test.each([
  ["002003", "02000", "not_found", "/db_query"],
  ["001003", "42000", "invalid_source", "/db_query"],
  ["003001", "42501", "unauthorized", "/credentials"],
  ["000606", "57P03", "invalid_source", "/db_connection/warehouse"],
  ["100038", "22018", "invalid_source", "/db_query"],
])("%s is reported with its own code", async (code, sqlState, fault, param) => {
  using fake = fakeSnowflake();
  fake.answers.set("SELECT x", { status: 422, code, sqlState, message: `Object 'X' and ${PAT}` });
  const error = await refusal(() => linesOf(ask(fake, "SELECT x", { credentials: { token: PAT } })), [PAT]);
  expect(error).toMatchObject({ code: fault, param });
  expect(error.message).toContain("Object 'X' and [redacted]");
});

test("a duplicate column is refused with advice", async () => {
  using fake = fakeSnowflake();
  const twice = { name: "A", type: "text" };
  fake.answers.set("SELECT a, a", { ...NUMBERS, rowType: [twice, twice] });
  expect((await refused(fake, "SELECT a, a")).message).toContain("AS");
});

test("cancelling stops the read and the statement", async () => {
  using fake = fakeSnowflake();
  fake.answers.set("SELECT numbers", { ...NUMBERS, slow: 1_000_000 });
  const stop = new AbortController();
  const reading = linesOf(ask(fake, "SELECT numbers"), stop.signal).catch((error: unknown) => error);
  const ours = () => [...fake.statements.values()].find(({ sql }) => sql === "SELECT numbers");
  await until("it runs", () => ours());
  stop.abort(new Error("enough"));
  expect(await reading).toMatchObject({ message: "enough" });
  expect(ours()?.cancelled).toBe(true);
});

test("a statement that takes too long is cancelled with its limit", async () => {
  using fake = fakeSnowflake();
  fake.answers.set("SELECT numbers", { ...NUMBERS, slow: 1_000_000 });
  const error = await refused(fake, "SELECT numbers", { limits: { statementMs: 200 } });
  expect(error).toMatchObject({ code: "broken", param: "/db_query" });
  expect(error.message).toContain("200 ms (connectors.statement_timeout_ms)");
  expect([...fake.statements.values()].at(-1)?.cancelled).toBe(true);
});

test("a connection that is cut in the middle is an error that says so", async () => {
  using fake = fakeSnowflake();
  using proxy = cuttingProxy(fake.port);
  const text = () => crypto.randomUUID() + crypto.randomUUID() + crypto.randomUUID(); // does not compress well
  const row = (i: number) => [String(i), text()];
  fake.answers.set("SELECT numbers", { ...NUMBERS, row });
  proxy.cutAfter(2_800_000, { refuse: true });
  const error = await refused(fake, "SELECT numbers", { endpoint: `http://127.0.0.1:${proxy.port}` });
  expect(error.code).toBe("broken");
});

test("missing rows are detected", async () => {
  using fake = fakeSnowflake();
  fake.answers.set("SELECT numbers", { ...NUMBERS, lost: 1 });
  const error = await refused(fake, "SELECT numbers");
  expect(error).toMatchObject({ code: "broken", message: "Snowflake sent 24999 of 25000 rows. Try again" });
});

test("a private address is refused unless the operator allows it", async () => {
  using fake = fakeSnowflake();
  const error = await refused(fake, "SELECT 1", { dialer: createDialer(NOTHING_ALLOWED, LIMITS) });
  expect(error.code).toBe("address_refused");
});

test("a row that is too long is refused with its number", async () => {
  using fake = fakeSnowflake();
  const row = (i: number) => [String(i), "x".repeat(i === 776 ? 2000 : 10)];
  fake.answers.set("SELECT numbers", { ...NUMBERS, total: 1000, row });
  const error = await refused(fake, "SELECT numbers", { limits: { rowBytes: 1500 } });
  expect(error).toMatchObject({ code: "invalid_rows" });
  expect(error.message).toContain("Row 777 ");
});

test("a token is renewed before it expires, and names the account without its region", () => {
  let now = Date.UTC(2026, 0, 1);
  const tokens = keyPairToken(
    { account: "xy12345.eu-west-1", user: "ann", privateKey: PRIVATE_KEY, passphrase: undefined },
    () => now,
  );
  const first = tokens();
  expect(claimsOf(first)).toEqual({
    iss: `XY12345.ANN.${FINGERPRINT}`,
    sub: "XY12345.ANN",
    iat: now / 1000,
    exp: now / 1000 + 3540,
  });
  now += 50 * 60_000;
  expect(tokens()).toBe(first);
  now += 8 * 60_000;
  expect(tokens()).not.toBe(first);
  expect(accountInToken("org-acct")).toBe("ORG-ACCT");
  expect(accountInToken("acct-123.global")).toBe("ACCT");
});

const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split(".")[1]!, "base64url").toString());

describeWith(
  "Snowflake's own key-pair code",
  () => judge("snowflake-sdk/dist/lib/authentication/auth_keypair.js"),
  ({ default: AuthKeypair }) => {
    test("names issuer and subject as we do, and signs with the same algorithm", async () => {
      const theirs = new AuthKeypair({
        getPrivateKey: () => LOCKED_KEY,
        getPrivateKeyPath: () => undefined,
        getPrivateKeyPass: () => "open sesame",
      });
      await theirs.authenticate("SNOWFLAKE_JWT", "", "myorg-myaccount", "ann");
      const body = { data: { TOKEN: "" } };
      theirs.updateBody(body);
      const locked = { privateKey: LOCKED_KEY, passphrase: "open sesame" };
      const ours = keyPairToken({ account: "myorg-myaccount", user: "ann", ...locked })();
      const { iss, sub } = claimsOf(body.data.TOKEN);
      expect(claimsOf(ours)).toMatchObject({ iss, sub });
      expect(ours.split(".")[0]).toBe(body.data.TOKEN.split(".")[0]!);
    });
  },
);
