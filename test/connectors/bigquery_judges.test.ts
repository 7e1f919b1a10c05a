/** The fake and the connector against Google's own libraries and a real engine. */
import { expect, test } from "bun:test";
import { open } from "../../src/workers/connector/bigquery.ts";
import { createDialer, type Dialer } from "../../src/workers/connector/dialer.ts";
import { googleToken, readServiceAccount } from "../../src/workers/connector/google_token.ts";
import { bigqueryLocal, describeWith, judge } from "../servers/servers.ts";
import { ask, NUMBERS } from "./bigquery_kit.ts";
import { fakeBigquery, PROJECT } from "./fake_bigquery.ts";
import { LIMITS, linesOf, NOTHING_ALLOWED, openWith, quiet, refusal, rowsOf } from "./sql_kit.ts";

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

  test("rows of a real engine arrive in the order of the query", async () => {
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

  test("a missing table is an error, not an empty result", async () => {
    const error = await refusal(() => linesOf(there("SELECT * FROM no_such.no_such_table")));
    expect(error).toMatchObject({ param: "/db_query" });
    expect(error.message).toContain("no_such_table");
  }, 120_000);
});
