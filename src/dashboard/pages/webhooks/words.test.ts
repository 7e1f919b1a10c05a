import { expect, test } from "bun:test";
import { deliveryOf, stateOf } from "./words.ts";

test("endpoints and deliveries say why", () => {
  const good = { enabled: true, disabled_reason: null, consecutive_failures: 0 };
  expect(stateOf(good)).toEqual({ status: "enabled" });
  expect(stateOf({ ...good, consecutive_failures: 3 }).reason).toBe("3 deliveries in a row failed");
  expect(stateOf({ ...good, enabled: false, disabled_reason: "gone" }).reason).toContain("410");
  const sent = { status: "pending" as const, last_error: "timeout", last_response_code: null, attempt_count: 2 };
  expect(deliveryOf(sent)).toEqual({ status: "pending", detail: "2 attempts", reason: "timeout" });
});
