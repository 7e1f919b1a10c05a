import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dir, "../..");

/** Files outside `src/platform/db` that run raw SQL on `$client`, and why (docs/adr/0034-rows.md). */
const RAW: Record<string, string> = {
  "src/app.ts": "hands the client to platform/db, which runs before the tables are known",
  "src/resources/access/api_keys/prune.ts": "subqueries over the same table, then many deletions",
  "src/resources/detection/accounts.ts": "a sum and an update for each detection; the builder took a tenth of its time",
  "src/resources/watching/metrics/rows.ts": "aggregates of a scrape, with INDEXED BY",
  "src/resources/watching/metrics/store.ts":
    "thousands of upserts in one commit; json_each with CROSS JOIN as the order of tables",
  "src/resources/machines/regions/service.ts": "a table of training_jobs, which imports this resource",
  "src/resources/watching/traces/store.ts": "INSERT OR IGNORE whose row id the full text takes; hundreds in one commit",
  "src/resources/watching/traces/search/prefixes.ts": "the words of FTS5, which the builder does not have",
  "src/resources/watching/traces/search/text.ts": "FTS5, which the builder does not have",
  "src/resources/training/training_jobs/state/checkpoint_files.ts": "a UNION of two tables",
  "src/resources/training/training_jobs/state/credit.ts": "INDEXED BY",
  "src/resources/training/training_jobs/state/queue.ts": "INDEXED BY, once a second over all queued jobs",
  "src/resources/access/workspaces/prune.ts": "tables that the schema names",
  "src/resources/watching/webhooks/delivery/due.ts":
    "the loop of deliveries: walks its index, updates many rows at once",
  "src/resources/watching/webhooks/delivery/enqueue.ts": "one statement for each event of the fan-out",
  "src/resources/watching/webhooks/delivery/facts.ts": "one statement for each attempt, over three tables",
  "src/resources/watching/webhooks/delivery/held.ts":
    "the loop of deliveries: walks its index, updates many rows at once",
};

const PRODUCT = [...new Bun.Glob("src/**/*.ts").scanSync(ROOT)].filter(
  (file) => !file.endsWith(".test.ts") && !file.startsWith("src/platform/db/"),
);
const raw = (files: readonly string[], read: (file: string) => string) =>
  files.filter((file) => read(file).includes("$client")).sort();

test("raw SQL is in the files that have a reason for it, and in no others", () => {
  const found = raw(PRODUCT, (file) => readFileSync(join(ROOT, file), "utf8"));
  expect(found).toEqual(Object.keys(RAW).sort());
  expect(raw(["a", "b"], (file) => (file === "a" ? 'db.$client.query("SELECT 1")' : "db.select()"))).toEqual(["a"]);
});
