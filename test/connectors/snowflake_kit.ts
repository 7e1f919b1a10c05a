/** The connector against the fake of Snowflake. */
import { open } from "../../src/workers/connector/snowflake.ts";
import { type FakeResult, type fakeSnowflake, PRIVATE_KEY } from "./fake_snowflake.ts";
import { openWith, type QueryOptions } from "./sql_kit.ts";

export type Fake = ReturnType<typeof fakeSnowflake>;
export type More = Partial<QueryOptions> & { endpoint?: string };
export const connection = (endpoint: string) => ({
  account: "myorg-myaccount",
  user: "ann",
  warehouse: "WH",
  database: "LAB",
  endpoint,
});
export const ask = (fake: Fake, query: string, more: More = {}) =>
  openWith(open, {
    source: { source_type: "snowflake", db_connection: connection(more.endpoint ?? fake.url) },
    query,
    credentials: { private_key: PRIVATE_KEY },
    ...more,
  });

export const NUMBERS: FakeResult = {
  rowType: [
    { name: "ID", type: "fixed", scale: 0, nullable: false },
    { name: "text", type: "text" },
  ],
  total: 25_000,
  row: (i) => [String(i + 1), "x".repeat(100)],
};
