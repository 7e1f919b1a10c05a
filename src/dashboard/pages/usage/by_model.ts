/** Use of each model: training runs and deployments together. */
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";

export type ModelUse = { model: string; runs: number; requests: number; costUsd: number; energyWh: number };

type Job = Pick<TrainingJob, "id" | "output_name" | "base_model" | "cost_usd" | "energy_wh">;
type Served = Pick<Deployment, "model" | "total_requests" | "total_cost_usd">;

/** The most expensive first, then the most used. A deployed run has the name of the run. */
export function modelUses(jobs: readonly Job[], deployments: readonly Served[]): ModelUse[] {
  const uses = new Map<string, ModelUse>();
  const of = (model: string) => {
    const use = uses.get(model) ?? { model, runs: 0, requests: 0, costUsd: 0, energyWh: 0 };
    uses.set(model, use);
    return use;
  };
  for (const { base_model, cost_usd, energy_wh } of jobs) {
    const use = of(base_model);
    use.runs++;
    use.costUsd += cost_usd;
    use.energyWh += energy_wh ?? 0;
  }
  const names = new Map(jobs.map(({ id, output_name }) => [id, output_name]));
  for (const { model, total_requests, total_cost_usd } of deployments) {
    const use = of(names.get(model) ?? model);
    use.requests += total_requests;
    use.costUsd += total_cost_usd;
  }
  return [...uses.values()].sort(
    (a, b) => b.costUsd - a.costUsd || b.requests - a.requests || b.runs - a.runs || (a.model < b.model ? -1 : 1),
  );
}
