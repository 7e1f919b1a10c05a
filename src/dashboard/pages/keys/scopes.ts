import type { Scope } from "../../../context.ts";

/** A word for lists, and the meaning. */
export const SCOPE_WORDS: Readonly<Record<Scope, readonly [word: string, meaning: string]>> = {
  "*": ["everything", "Read and write everything in this workspace"],
  read: ["read", "Read everything in this workspace"],
  inference: ["inference", "Call models and deployments"],
  training: ["training", "Datasets, rewards, training runs and costs"],
  detect: ["detection", "Detect generated images and clips"],
  annotate: ["annotation", "Work on the items of annotation queues"],
  metrics: ["metrics", "Read the metrics for monitoring"],
  admin: ["admin", "Everything, in every workspace of this server"],
};
