/** Opens BigQuery queries against the fake, for all tests of BigQuery. */
import { open } from "../../src/workers/connector/bigquery.ts";
import { type FakeTable, type fakeBigquery, PROJECT } from "./fake_bigquery.ts";
import { openWith, type QueryOptions } from "./sql_kit.ts";

export type Fake = ReturnType<typeof fakeBigquery>;
export const ask = (fake: Fake, query: string, more: Partial<QueryOptions> & { endpoint?: string } = {}) =>
  openWith(open, {
    source: { source_type: "bigquery", db_connection: { project_id: PROJECT, endpoint: more.endpoint ?? fake.url } },
    query,
    credentials: { service_account: fake.account },
    ...more,
  });

export const NUMBERS: FakeTable = {
  fields: [
    { name: "id", type: "INTEGER", mode: "REQUIRED" },
    { name: "text", type: "STRING" },
  ],
  total: 25_000,
  row: (i) => [{ v: String(i + 1) }, { v: "x".repeat(100) }],
};
