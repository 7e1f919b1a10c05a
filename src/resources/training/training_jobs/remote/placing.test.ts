import { afterAll, beforeAll, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { fakeNode, INFO } from "../../../../../test/fake_node.ts";
import { type JobsApp, jobsApp } from "../../../../../test/jobs_kit.ts";
import { SlurmSettings } from "../../../../platform/providers/slurm_text.ts";
import { trainingJobs } from "../table.ts";

let app: JobsApp;
let node: ReturnType<typeof fakeNode>;
beforeAll(async () => {
  app = await jobsApp({ flags: { "billing.local_rate_usd_per_hour": 1 } });
  node = fakeNode(app, { name: "big", rateMicros: 2_000_000 });
}, 60_000);
afterAll(() => app.close().then(app.remove));

test("a job runs where its request says, at the price of that region", async () => {
  for (const more of [{ provider: "ssh" }, { region: node.region }, { region: "big", provider: "ssh" }]) {
    const { status, body } = await app.post(more);
    expect([status, body.provider, body.region]).toEqual([201, "ssh", node.region]);
    expect(body.placement).toContain(node.region);
  }
  const clone = await app.call("POST", "/v1/training_jobs", {
    source_job: (await app.post({ provider: "ssh" })).body.id,
  });
  expect(clone.body).toMatchObject({ provider: "ssh", region: node.region });
});

test("without a place in the request, the cheapest region that fits is taken, with the reason", async () => {
  const { body } = await app.post();
  expect(body).toMatchObject({ provider: "local", region: "local" });
  expect(body.placement).toBe("local is the cheapest of 2 regions that fit: 1.00 USD an hour");
});

test("what cannot be placed", async () => {
  const cases: [object, string, RegExp][] = [
    [{ provider: "slurm" }, "/provider", /use local, ssh/],
    [{ region: "mars" }, "/region", /no region mars/],
    [{ region: "local", provider: "ssh" }, "/provider", /ssh/],
    [{ provider: "ssh", gpu: { gpu_type: "H200" } }, "/gpu", /H200/],
  ];
  for (const [more, param, words] of cases) {
    const { status, body } = await app.post(more);
    expect([more, status, body.error?.param]).toEqual([more, 422, param]);
    expect(body.error.message).toMatch(words);
  }
});

test("availability and prices show what the region offers", async () => {
  const { body: free } = await app.call("GET", "/v1/gpu/availability");
  expect(free.regions).toMatchObject([{ region: node.region, provider: "ssh", type: "cpu", rate_usd_per_hour: 2 }]);
  const { body: rates } = await app.call("GET", "/v1/cost/rates");
  expect(rates[`ssh:${node.region}`]).toEqual({ cpu: 2 });
  const other = await app.call("GET", "/v1/cost/rates", undefined, { key: app.keyB });
  expect(Object.keys(other.body)).not.toContain(`ssh:${node.region}`);
});

test("a cluster gives a job the devices of several nodes, each at its price", async () => {
  const more = { kind: "slurm", slurm: SlurmSettings.parse({}), info: { ...INFO, most: { cpu: 2 } } } as const;
  const { region } = fakeNode(app, { name: "cluster", rateMicros: 3_000_000, ...more });
  const { status, body } = await app.post({ region, gpu: { gpu_count: 2 } });
  expect([status, body.provider, body.gpu_requested]).toEqual([201, "slurm", { type: "cpu", count: 2 }]);
  const { rateMicros } = app.ctx.db.select().from(trainingJobs).where(eq(trainingJobs.id, body.id)).get()!;
  expect(rateMicros).toBe(6_000_000);
  const refused = await app.post({ region, gpu: { gpu_count: 3 } });
  expect([refused.status, refused.body.error.param]).toEqual([422, "/gpu"]);
});
