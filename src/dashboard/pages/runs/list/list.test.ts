import { expect, test } from "bun:test";
import type { ListedRun } from "./columns.tsx";
import { fieldsFor, ownOf, tagsOf } from "./fields.ts";
import { fieldsOfSearch, isFound, searchOf } from "./search.ts";

const run = (over: object = {}) =>
  ({
    id: "job_1",
    output_name: "Sums",
    base_model: "verk-tiny",
    dataset: { id: "ds_1", name: "carry", snapshot_id: "@snap-1", num_rows: 63 },
    error: null,
    metadata: { who: "ada" },
    tags: ["Baseline"],
    group: "first week",
    notes: "too many steps",
    hyperparameters: { learning_rate: 0.0002, loss_type: "dapo" },
    latest_metrics: { reward: 0.8, learning_rate: 0, "rewards/margins": 2 },
    ...over,
  }) as unknown as ListedRun;
const found = (text: string, over: object = {}) => isFound(run(over), searchOf(text));

test("a search finds words of names, data, tags, notes and metadata, in any order and case", () => {
  for (const text of ["", "sums", "CARRY verk", "baseline", "week first", "steps many", "ada", "ds_1"])
    expect([text, found(text)]).toEqual([text, true]);
  expect(found("sums missing")).toBe(false);
});

test("conditions compare settings and metrics; a run without one does not fit", () => {
  const cases: [string, boolean][] = [
    ["reward>0.7", true],
    ["reward>=0.8", true],
    ["reward>0.8", false],
    ["learning_rate<=2e-4", true],
    ["learning_rate<1e-4", false],
    ["rewards/margins=2", true],
    ["loss_type=DAPO", true],
    ["loss_type=grpo", false],
    ["kl<1", false],
    ["reward>0.7 carry", true],
    ["tag:baseline", true],
    ["tag:base", false],
    ["group:other", false],
  ];
  expect(cases.map(([text]) => [text, found(text)])).toEqual(cases);
  expect(fieldsOfSearch(searchOf("a>1 word"))).toEqual(["hyperparameters.a", "latest_metrics.a"]);
});

test("columns of settings and metrics ask for their fields; a column of another version asks for none", () => {
  const fields = fieldsFor(["state", "set:learning_rate", "gone", "metric:rewards/a.b/mean", "state", "cost_usd"]);
  for (const field of ["hyperparameters.learning_rate", "latest_metrics.rewards/a.b/mean", "cost_usd", "status"])
    expect(fields).toContain(field);
  expect(new Set(fields).size).toBe(fields.length);
  expect(fields).not.toContain("gone");
  expect([ownOf("set:a"), ownOf("metric:rewards/x"), ownOf("set:a,b"), ownOf("state")]).toEqual([
    { kind: "set", name: "a" },
    { kind: "metric", name: "rewards/x" },
    undefined,
    undefined,
  ]);
});

test("tags are separated by commas", () => {
  expect(tagsOf(" a, b c ,,a")).toEqual(["a", "b c"]);
  expect(tagsOf("")).toEqual([]);
});
