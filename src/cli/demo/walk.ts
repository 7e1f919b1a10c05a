import { type Client, createClient, type ServerEvent } from "../client.ts";
import type { Viewer } from "../jobs/follow.ts";
import type { SavedSnapshot } from "./datasets.ts";
import type { DemoServer, Stage } from "./server.ts";
import type { Answers } from "./training.ts";

/** Values that the steps pass on. A step reads only values that an earlier step has set. */
export type Walk = Stage & {
  /** Shows the training while it runs. */
  viewer: Viewer;
  server?: DemoServer;
  adminKey?: string;
  key?: string;
  workspaceId?: string;
  datasetId?: string;
  saved?: SavedSnapshot;
  deploymentId?: string;
  taskId?: string;
  jobId?: string;
  resultId?: string;
  before?: Answers;
  after?: Answers;
  events: ServerEvent[];
};

/** `run` returns a short result, or throws if the step failed. */
export type Step = { title: string; run: (walk: Walk) => Promise<string> };

const missing = (what: string): never => {
  throw new Error(`an earlier step did not set ${what}`);
};

/** A value that an earlier step has set. */
export function made<K extends keyof Walk>(walk: Walk, key: K): NonNullable<Walk[K]> {
  return walk[key] ?? missing(key);
}

export const serverOf = (walk: Walk): DemoServer => made(walk, "server");
export const clientOf = (walk: Walk): Client => createClient({ url: serverOf(walk).url, key: made(walk, "key") });

export function expect(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise);
}
