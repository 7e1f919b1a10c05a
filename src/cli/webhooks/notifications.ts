/** Turns events of the feed into the notifications that detection sends to its `webhookUrl`. */
export type FeedEvent = { id: string; type: string; created_at: string; data: unknown };

/** Type of a notification → type of its event in the feed. */
export const NOTIFICATIONS: Readonly<Record<string, string>> = {
  "batch.completed": "detection_batch.completed",
  "credits.low": "detection_credits.low",
  "credits.exhausted": "detection_credits.exhausted",
};

const EVENTS = new Map(Object.entries(NOTIFICATIONS).map(([name, type]) => [type, name]));

type BatchData = { id: string; status: string; total: number; success_count: number; failure_count: number };
type AccountData = { id: string; plan: string; credits: number; total: number; threshold: number };

/** Returns undefined for an event of the platform. */
export function notificationOf({ type, created_at: timestamp, data }: FeedEvent) {
  const event = EVENTS.get(type);
  if (event === undefined) return undefined;
  return {
    event,
    timestamp,
    data: event === "batch.completed" ? batchOf(data as BatchData) : accountOf(data as AccountData),
  };
}

const batchOf = ({ id, status, total, success_count, failure_count }: BatchData) => ({
  jobId: id,
  status,
  totalImages: total,
  successCount: success_count,
  failureCount: failure_count,
});

const accountOf = ({ id, plan, credits, total, threshold }: AccountData) => ({
  plan,
  customerId: id,
  credits,
  total,
  threshold,
});
