/** The lists of evals. Each run has an experiment of the same id. */
import { newId } from "../src/lib/ids.ts";
import type { TestApp } from "./harness.ts";
import type { ListCase } from "./lists_kit.ts";

type Make = (app: TestApp, table: string, id: string, columns: Record<string, string | number | null>) => string;

const EVAL = newId("eval");
const RUN = newId("exp");
const EVAL_COLUMNS = {
  data_source_config: '{"type":"custom","item_schema":{}}',
  testing_criteria: "[]",
  evaluators: "[]",
  metadata: "{}",
};
const RUN_COLUMNS = { data_source: '{"type":"jsonl","source":{"type":"file_id","id":"x"}}' };

/** `make`: writes a row once. */
export const evalLists = (make: Make, experiment: Record<string, string | number | null>): readonly ListCase[] => {
  const parent = (app: TestApp) => make(app, "evals", EVAL, EVAL_COLUMNS);
  const run = (app: TestApp) => {
    make(app, "experiments", RUN, experiment);
    return make(app, "eval_runs", RUN, { ...RUN_COLUMNS, eval_id: parent(app) });
  };
  return [
    { route: "/v1/evals", table: "evals", prefix: "eval", row: () => EVAL_COLUMNS },
    {
      route: "/v1/evals/{id}/runs",
      table: "eval_runs",
      prefix: "exp",
      at: (app) => ({ id: parent(app) }),
      row(app, _, id) {
        make(app, "experiments", id, experiment);
        return { ...RUN_COLUMNS, eval_id: EVAL };
      },
    },
    {
      route: "/v1/evals/{id}/runs/{run}/output_items",
      table: "experiment_items",
      prefix: "expi",
      at: (app) => ({ id: parent(app), run: run(app) }),
      row: (_, i) => ({ experiment_id: RUN, row_id: i, input: '""' }),
    },
  ];
};
