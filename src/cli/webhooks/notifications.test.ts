import { expect, test } from "bun:test";
import { CATALOG } from "../../events/catalog.ts";
import { NOTIFICATIONS, notificationOf } from "./notifications.ts";

const timestamp = "2026-01-01T00:00:00.000Z";
const eventOf = (type: string, data: object) => ({ id: "evt_1", type, created_at: timestamp, data });

test("F21 listen: a notification of detection has the shape of a delivery to webhookUrl", () => {
  const batch = {
    object: "detection_batch",
    id: "bat_1",
    status: "completed",
    total: 3,
    success_count: 2,
    failure_count: 1,
  };
  expect(notificationOf(eventOf("detection_batch.completed", batch))).toEqual({
    event: "batch.completed",
    timestamp,
    data: { jobId: "bat_1", status: "completed", totalImages: 3, successCount: 2, failureCount: 1 },
  });
  const account = { object: "detection_account", id: "cus_1", plan: "free", credits: 4, total: 20, threshold: 20 };
  expect(notificationOf(eventOf("detection_credits.low", account))).toEqual({
    event: "credits.low",
    timestamp,
    data: { plan: "free", customerId: "cus_1", credits: 4, total: 20, threshold: 20 },
  });
  expect(notificationOf(eventOf("job.completed", {}))).toBeUndefined();
});

test("F21 listen: every notification has its event in the feed", () => {
  for (const type of Object.values(NOTIFICATIONS)) expect(Object.keys(CATALOG)).toContain(type);
});
