import type { Ctx } from "../../../context.ts";
import { mustGet as readTrace } from "../../watching/traces/service.ts";
import { mustGetItem as readExperimentItem } from "../experiments/service.ts";
import type { ReservationRow } from "./table.ts";

declare module "../../../context.ts" {
  interface State {
    readonly annotationQueues: AnnotationQueuesState;
  }
}

/**
 * Reads what a trace or an experiment item holds; throws 404 for an unknown id. `input` is a prompt or a list of
 * messages. `output` is an answer, or a list of them, each a text or a message. Both are null if there is none.
 */
export type ContentReader = (
  ctx: Ctx,
  workspaceId: string,
  id: string,
) => { input: unknown; output: unknown; reference?: string | null };

type Reservation = Pick<ReservationRow, "itemId" | "annotator" | "leaseMs" | "expiresAt">;

/** Live state of the annotation queues. */
export class AnnotationQueuesState {
  /** End of each lease on the steady clock, so that a changed time of day neither ends nor prolongs it. */
  readonly #deadlines = new Map<string, number>();
  /** Appends under way, by item: a second caller waits for the first. */
  readonly appends = new Map<string, Promise<void>>();
  /** By the field of a new item. Tests replace them. */
  readonly readers: { trace_ids: ContentReader; experiment_item_ids: ContentReader } = {
    trace_ids: readTrace,
    experiment_item_ids: readExperimentItem,
  };

  lease({ itemId, annotator, leaseMs }: Reservation, steady: number) {
    this.#deadlines.set(keyOf(itemId, annotator), steady + leaseMs);
  }

  release({ itemId, annotator }: Pick<Reservation, "itemId" | "annotator">) {
    this.#deadlines.delete(keyOf(itemId, annotator));
  }

  /** A reservation of an earlier process goes on for what was left of it by the time of day, never longer. */
  isExpired(row: Reservation, { now, steady }: { now: number; steady: number }): boolean {
    const key = keyOf(row.itemId, row.annotator);
    let deadline = this.#deadlines.get(key);
    if (deadline === undefined) {
      deadline = steady + Math.min(row.leaseMs, Math.max(0, row.expiresAt - now));
      this.#deadlines.set(key, deadline);
    }
    return steady >= deadline;
  }
}

const keyOf = (itemId: string, annotator: string) => `${itemId} ${annotator}`;
