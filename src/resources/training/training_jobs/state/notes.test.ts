import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { manyTrainings } from "../../../../../test/fake_trainers.ts";

setDefaultTimeout(120_000);
const { app, closeAll } = manyTrainings();
afterEach(closeAll);

type Entry = { id: string; type: string; data: Record<string, unknown> };

test("P10 one event id: the lifecycle entries of a job are the events of the workspace, with the same id and data", async () => {
  const on = await app();
  const done = on.add();
  const failed = on.add({ hyperparameters: {}, datasetId: `ds_${"0".repeat(26)}` });
  const cancelled = on.add({ notBefore: Number.MAX_SAFE_INTEGER });
  await on.call("POST", `/v1/training_jobs/${cancelled}/pause`);
  await on.call("POST", `/v1/training_jobs/${cancelled}/resume`);
  await on.call("POST", `/v1/training_jobs/${cancelled}/cancel`);
  await on.reaches(done, "completed");
  await on.reaches(failed, "failed");
  const events: Entry[] = (await on.call("GET", "/v1/events?limit=100")).body.data;
  for (const [id, types] of [
    [done, ["job.provisioning", "job.running", "job.completed"]],
    [failed, ["job.failed"]],
    [cancelled, ["job.paused", "job.requeued", "job.cancelled"]],
  ] as const) {
    const history: Entry[] = (await on.call("GET", `/v1/training_jobs/${id}/events`)).body.data.toReversed();
    const steps = history.filter(({ type }) => type.startsWith("job."));
    expect(steps.map(({ type }) => type)).toEqual([...types]);
    for (const { id: eventId, type, data } of steps) {
      const event = events.find((each) => each.id === eventId);
      expect(event?.type).toBe(type);
      expect(data).toMatchObject(event?.data ?? { missing: true });
      if (type === "job.completed") expect(data).toEqual(event?.data ?? {});
      expect(data).toMatchObject({ object: "job", id, model: "random", status: expect.any(String) });
    }
  }
});
