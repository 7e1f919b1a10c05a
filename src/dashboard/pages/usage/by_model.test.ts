import { expect, test } from "bun:test";
import { modelUses } from "./by_model.ts";

test("runs and deployments of a model are added up, the most expensive first", () => {
  const job = (id: string, cost_usd: number) => ({
    id,
    output_name: `out-${id}`,
    base_model: "base",
    cost_usd,
    energy_wh: null,
  });
  const served = (model: string, total_requests: number, total_cost_usd: number) => ({
    model,
    total_requests,
    total_cost_usd,
  });
  const uses = modelUses([job("job_1", 1), job("job_2", 2)], [served("base", 5, 1), served("job_1", 7, 9)]);
  expect(uses).toEqual([
    { model: "out-job_1", runs: 0, requests: 7, costUsd: 9, energyWh: 0 },
    { model: "base", runs: 2, requests: 5, costUsd: 4, energyWh: 0 },
  ]);
});
