import type { Semaphore } from "../../platform/semaphore.ts";
import type { Need } from "./accounts.ts";
import { createGate } from "./gate.ts";
import type { Child, Versions } from "./worker.ts";

/** The state of detection that lives in this process (`ctx.state.detection`). */
export class DetectionState {
  permits: Semaphore | undefined;
  child: Child | undefined;
  /** Versions of the models that the last process has opened. */
  versions: Versions | undefined;
  /** Failed starts in a row. */
  failures = 0;
  notBefore = 0;
  busy = 0;
  /** Bytes of files that are in the process or wait for it. */
  heldBytes = 0;
  idle = new AbortController();
  /** Hashes of files that end the process. */
  readonly deadly = new Set<string>();
  readonly gate = createGate();
  /** Workspace → what its requests under way will use up. */
  readonly needs = new Map<string, Need>();
  /** Workspace → bytes of batch bodies in memory. */
  readonly intake = new Map<string, number>();
  /** Workspace → times of its requests in the last second. */
  readonly times = new Map<string, number[]>();
  /** Batches whose file is being written. */
  readonly writing = new Set<string>();
  /** Resolves when there may be items to detect. */
  bell = Promise.withResolvers<void>();
}
