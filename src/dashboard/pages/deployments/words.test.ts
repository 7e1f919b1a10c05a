import { expect, test } from "bun:test";
import { stateOf } from "./words.ts";

const base = {
  status: "serving" as const,
  parked: false,
  load: { stage: "ready" as const, progress: 1, reason: null },
  error: null,
  last_error: null,
  replicas: { desired: 1, ready: 1 },
};

test("states have their reason in words", () => {
  expect(stateOf(base)).toEqual({ status: "serving", detail: "1 replica ready" });
  expect(stateOf({ ...base, parked: true }).status).toBe("parked");
  const waits = { stage: "queued" as const, progress: 0, reason: "waits for 2.1 GB" };
  expect(stateOf({ ...base, status: "queued", load: waits })).toEqual({ status: "queued", reason: "waits for 2.1 GB" });
  const loads = { stage: "loading" as const, progress: 0.4, reason: null };
  expect(stateOf({ ...base, status: "provisioning", load: loads }).detail).toBe("loading 40 %");
  expect(stateOf({ ...base, status: "failed", error: "no file\nat x" }).reason).toBe("no file");
});
