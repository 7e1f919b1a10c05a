import { Semaphore } from "../../platform/semaphore.ts";
import type { Running } from "./connected/resolve.ts";
import type { Queue } from "./stream/append.ts";
import type { Opened } from "./stream/files.ts";

const MOST_AT_ONCE = 4;

/** The state of datasets that lives in this process (`ctx.state.datasets`). */
export class DatasetsState {
  /** Path → open file of rows, oldest use first. */
  readonly open = new Map<string, Opened>();
  /** Files whose dataset is about to be recorded. */
  readonly making = new Set<string>();
  /** Dataset → the snapshot that is being cut: one at a time. */
  readonly cutting = new Map<string, Promise<unknown>>();
  /** Dataset → batches of rows that wait to be appended. */
  readonly lines = new Map<string, Queue>();
  readonly resolving = new Map<string, Running>();
  /** Connector processes. Readings take hours, so tests of a source have permits of their own. */
  readonly looks = new Semaphore({ permits: MOST_AT_ONCE });
  readonly reads = new Semaphore({ permits: MOST_AT_ONCE });
}
