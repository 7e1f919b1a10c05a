/** Queries to a fake BigQuery, and the refusals that must not show its key. */
import { open } from "../../src/workers/connector/bigquery.ts";
import { type FakeTable, type fakeBigquery, PROJECT } from "./fake_bigquery.ts";
import { linesOf, openWith, type QueryOptions, refusal } from "./sql_kit.ts";

type Fake = ReturnType<typeof fakeBigquery>;
export const ask = (fake: Fake, query: string, more: Partial<QueryOptions> & { endpoint?: string } = {}) =>
  openWith(open, {
    source: { source_type: "bigquery", db_connection: { project_id: PROJECT, endpoint: more.endpoint ?? fake.url } },
    query,
    credentials: { service_account: fake.account },
    ...more,
  });
const KEY_LINES = (fake: Fake) => fake.account.private_key.split("\n").filter((line) => line.length > 40);
export const refused = (fake: Fake, query: string, more: Partial<QueryOptions> & { endpoint?: string } = {}) =>
  refusal(() => linesOf(ask(fake, query, more)), [...KEY_LINES(fake), "ya29.", "eyJ"]);

export const NUMBERS: FakeTable = {
  fields: [
    { name: "id", type: "INTEGER", mode: "REQUIRED" },
    { name: "text", type: "STRING" },
  ],
  total: 25_000,
  row: (i) => [{ v: String(i + 1) }, { v: "x".repeat(100) }],
};
