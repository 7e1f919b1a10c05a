import { expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { createDialer } from "../../src/workers/connector/dialer.ts";
import { until } from "../harness.ts";
import { cuttingProxy } from "../servers/proxy.ts";
import { ask, NUMBERS, refused } from "./bigquery_kit.ts";
import { fakeBigquery } from "./fake_bigquery.ts";
import { LIMITS, linesOf, NOTHING_ALLOWED, refusal } from "./sql_kit.ts";

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

test("what is no SELECT is refused by its kind, before it could run", async () => {
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

test("a column that comes twice is refused with advice", async () => {
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

test("cancelling stops the reading and the job", async () => {
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
])("a server that sends %s is left", async (_, behaviour, message) => {
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
