/** Figures of the newest deliveries of an endpoint. Pure. */
import type { Delivery } from "../../../resources/watching/webhooks/schema.ts";
import { isSuccess } from "./words.ts";

type Counted = Pick<Delivery, "id" | "status" | "attempts">;

export function figuresOf(deliveries: readonly Counted[]) {
  const many = (...statuses: Delivery["status"][]) =>
    deliveries.filter(({ status }) => statuses.includes(status)).length;
  const [delivered, waiting, lost] = [many("succeeded"), many("pending"), many("failed", "exhausted")];
  const attempts = deliveries
    .flatMap(({ id, attempts }) => attempts.map((attempt) => ({ id, at: Date.parse(attempt.attempted_at), attempt })))
    .sort((a, b) => a.at - b.at);
  const times = attempts.flatMap(({ attempt }) => (attempt.response_code === null ? [] : [attempt.duration_ms]));
  return {
    delivered,
    waiting,
    lost,
    /** A share of the deliveries that are settled. */
    share: delivered + lost === 0 ? undefined : delivered / (delivered + lost),
    half: quantile(times, 0.5),
    slow: quantile(times, 0.95),
    /** The time of each attempt, and its answer time in the column of its result. */
    x: attempts.map(({ at }) => at / 1000),
    good: attempts.map(({ attempt }) => (isSuccess(attempt) ? attempt.duration_ms : null)),
    bad: attempts.map(({ attempt }) => (isSuccess(attempt) ? null : attempt.duration_ms)),
    ids: attempts.map(({ id }) => id),
  };
}

/** The least value that is not below this share of them: 0.95 is the slowest 5 %. */
function quantile(values: readonly number[], share: number): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}
