// tier: all (reads millions of cells, 10 s)
import { expect, test } from "bun:test";
import { sweep } from "../sweep.ts";
import { NUMBERS as BIGQUERY_NUMBERS } from "./bigquery_kit.ts";
import { fakeBigquery, PROJECT } from "./fake_bigquery.ts";
import { fakeSnowflake, PRIVATE_KEY } from "./fake_snowflake.ts";
import { connection, NUMBERS as SNOWFLAKE_NUMBERS } from "./snowflake_kit.ts";
import { readAside } from "./sql_kit.ts";

const ROWS = sweep({ quick: 200_000, full: 1_000_000 });
const db_query = "SELECT numbers";

test(`${ROWS} rows of BigQuery are read in flat memory`, async () => {
  using fake = fakeBigquery();
  fake.answers.set(db_query, { ...BIGQUERY_NUMBERS, total: ROWS });
  const db_connection = { project_id: PROJECT, endpoint: fake.url };
  const reading = await readAside(
    { source_type: "bigquery", db_connection, db_query },
    { service_account: fake.account },
  );
  expect(reading.rows).toBe(ROWS);
  expect(reading.growthBytes).toBeLessThan(150e6);
}, 120_000);

test(`${ROWS} rows of Snowflake are read in flat memory`, async () => {
  using fake = fakeSnowflake();
  fake.answers.set(db_query, { ...SNOWFLAKE_NUMBERS, total: ROWS, partitionRows: 50_000 });
  const reading = await readAside(
    { source_type: "snowflake", db_connection: connection(fake.url), db_query },
    { private_key: PRIVATE_KEY },
  );
  expect(reading.rows).toBe(ROWS);
  expect(reading.growthBytes).toBeLessThan(150e6);
}, 120_000);
