import { expect, test } from "bun:test";
import { PUBLISHED } from "../../../resources/webhooks/kinds.ts";
import { EVENT_TYPES } from "./event_types.ts";
import { deliveryOf, stateOf } from "./words.ts";

test("the choice of events has every type that can be delivered", () => {
  expect<string[]>([...EVENT_TYPES].sort()).toEqual([...PUBLISHED].sort());
});

test("endpoints and deliveries say why", () => {
  const good = { enabled: true, disabled_reason: null, consecutive_failures: 0 };
  expect(stateOf(good)).toEqual({ status: "enabled" });
  expect(stateOf({ ...good, consecutive_failures: 3 }).reason).toBe("3 deliveries in a row failed");
  expect(stateOf({ ...good, enabled: false, disabled_reason: "gone" }).reason).toContain("410");
  const sent = { status: "pending" as const, last_error: "timeout", last_response_code: null, attempt_count: 2 };
  expect(deliveryOf(sent)).toEqual({ status: "pending", detail: "2 attempts", reason: "timeout" });
});
