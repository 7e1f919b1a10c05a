import { type Client, createClient, type ServerEvent } from "../client.ts";
import type { Viewer } from "../jobs/follow.ts";
import type { Kept } from "./datasets.ts";
import type { DemoServer, Stage } from "./server.ts";
import type { Answers } from "./training.ts";

/** What the steps hand to each other. Each reads only what an earlier one has set. */
export type Walk = Stage & {
  /** Where a training is shown while it goes on. */
  viewer: Viewer;
  server?: DemoServer;
  adminKey?: string;
  key?: string;
  workspaceId?: string;
  datasetId?: string;
  kept?: Kept;
  deploymentId?: string;
  taskId?: string;
  jobId?: string;
  resultId?: string;
  before?: Answers;
  after?: Answers;
  seen: ServerEvent[];
};

/** Returns what was seen, in a few words; throws what was wrong. */
export type Step = { title: string; run: (walk: Walk) => Promise<string> };

const missing = (what: string): never => {
  throw new Error(`an earlier step should have made the ${what}`);
};

/** What an earlier step has set. */
export function made<K extends keyof Walk>(walk: Walk, key: K): NonNullable<Walk[K]> {
  return walk[key] ?? missing(key);
}

export const serverOf = (walk: Walk): DemoServer => made(walk, "server");
export const clientOf = (walk: Walk): Client => createClient({ url: serverOf(walk).url, key: made(walk, "key") });

export function expect(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise);
}
