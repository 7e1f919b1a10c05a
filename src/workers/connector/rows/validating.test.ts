import { expect, test } from "bun:test";
import type { Source } from "../../../lib/source.ts";
import type { ToConnector } from "../../protocol.ts";
import type { Connector, Reading } from "../types.ts";
import { validate } from "./validating.ts";

const never = new AbortController().signal;
const taskFor = (source: Source, count_ms = 60_000) =>
  ({ type: "validate", source, credentials: {}, row_bytes: 1 << 20, count_ms }) as Extract<
    ToConnector,
    { type: "validate" }
  >;
const fake = (more: Partial<Connector> & Pick<Connector, "rows">): Connector => ({
  test: async () => {},
  columns: async () => ["prompt"],
  count: async () => null,
  ...more,
});
const chunk = (...rows: object[]) => ({ lines: rows.map((row) => JSON.stringify(row)), cursor: null });
const S3: Source = { source_type: "s3", source_uri: "s3://bucket/rows" };

/** Gives some rows and then nothing until it is cancelled. */
async function* slow({ signal }: Reading) {
  yield chunk(...Array.from({ length: 120 }, (_, i) => ({ prompt: `row ${i}` })));
  await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
}

test("P9 validate: num_rows is an integer when counting takes too long, and num_rows_exact says so", async () => {
  expect(await validate(taskFor(S3, 1), fake({ rows: slow }), never)).toEqual({
    type: "validated",
    num_rows: 120,
    num_rows_exact: false,
    columns: ["prompt"],
    error: null,
  });
  const stuck = fake({ rows: slow, count: ({ reason }) => new Promise((_, no) => setTimeout(() => no(reason), 5)) });
  expect(await validate(taskFor(S3, 1), stuck, never)).toMatchObject({ num_rows: 100, num_rows_exact: false });
});

test("P9 validate: rows are counted after all have arrived, or the source states their number", async () => {
  async function* rows() {
    yield chunk({ prompt: "a" }, { prompt: "b" });
    yield chunk({ prompt: "c" });
  }
  const exact = { num_rows_exact: true, error: null };
  expect(await validate(taskFor(S3), fake({ rows }), never)).toMatchObject({ num_rows: 3, ...exact });
  const known = fake({ rows, count: async () => 7 });
  expect(await validate(taskFor(S3), known, never)).toMatchObject({ num_rows: 7, ...exact });
});

test("P9 validate: a source whose first rows fit no format is not valid, and is not counted", async () => {
  async function* rows() {
    yield chunk({ question: "a", answer: "b" });
  }
  const count = () => Promise.reject(new Error("counted"));
  const found = await validate(taskFor(S3), fake({ rows, count, columns: async () => ["question", "answer"] }), never);
  expect(found).toMatchObject({ num_rows: 1, num_rows_exact: false, columns: ["question", "answer"] });
  expect(found.error).toStartWith("Row 1: prompt is missing. Every row of the format prompt has prompt");
  expect(found.error).toContain("The columns are question, answer. Rename a column with hub_config.column_mapping");
  async function* none() {}
  expect((await validate(taskFor(S3), fake({ rows: none }), never)).error).toStartWith("The source has no rows");
});

test("P9 validate: of a warehouse, which charges for each query, only the names of the columns are checked", async () => {
  const source: Source = { source_type: "bigquery", db_query: "SELECT 1" };
  const rows = () => {
    throw new Error("read");
  };
  const seen = (columns: string[]) =>
    validate(taskFor(source), fake({ rows, columns: async () => columns, count: async () => 5 }), never);
  for (const columns of [
    ["prompt"],
    ["messages"],
    ["prompt", "chosen", "rejected"],
    ["prompt", "completion", "x"],
    ["instruction", "output"],
    ["conversations"],
  ])
    expect(await seen(columns)).toMatchObject({ num_rows: 5, num_rows_exact: true, error: null });
  expect((await seen(["chosen", "rejected"])).error).toStartWith("prompt is missing");
  expect((await seen(["question"])).error).toStartWith("prompt is missing");
});
