/** The words of arguments and flag values that stand for names of the server, and the kinds that complete them. */
export const VALUE_KINDS = {
  agent: "agents",
  dataset: "datasets",
  deployment: "deployments",
  endpoint: "webhooks",
  evaluator: "evaluators",
  experiment: "experiments",
  job: "jobs",
  model: "models",
  monitor: "monitors",
  queue: "queues",
  region: "regions",
  reward: "rewards",
  session: "sessions",
  volume: "volumes",
} as const;
export type ValueKind = (typeof VALUE_KINDS)[keyof typeof VALUE_KINDS];
