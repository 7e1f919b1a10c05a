import type { Config } from "../../platform/config/config.ts";
import { Semaphore } from "../../platform/semaphore.ts";
import type { Need } from "./accounts.ts";
import { DetectorState } from "./worker.ts";

declare module "../../context.ts" {
  interface State {
    readonly detection: DetectionState;
  }
}

/** The state of detection that lives in this process (`ctx.state.detection`). */
export class DetectionState {
  readonly detector: DetectorState;
  /** Workspace → what its requests under way will use up. */
  readonly needs = new Map<string, Need>();
  /** Workspace → bytes of batch bodies in memory. */
  readonly intake = new Map<string, number>();
  /** Workspace → times of its requests in the last second. A restart forgives at most one second's worth. */
  readonly times = new Map<string, number[]>();
  /** Items of batches under way. One workspace uses half of the detector at most, so the rest is free for requests. */
  readonly items: Semaphore;
  /** Batches whose file is being written and whose row does not exist yet. */
  readonly writing = new Set<string>();
  /** Resolves when there may be items to detect. */
  bell = Promise.withResolvers<void>();

  constructor({ detect }: Pick<Config, "detect">) {
    this.detector = new DetectorState(detect);
    const half = Math.max(1, Math.floor(detect.parallel / 2));
    this.items = new Semaphore({ name: "images of batches", permits: half + 1, mostEach: half });
  }
}
