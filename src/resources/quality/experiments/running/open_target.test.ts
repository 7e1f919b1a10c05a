import { afterEach, expect, test } from "bun:test";
import { fakePorts, newDataset, runAll, solve, sums } from "../../../../../test/experiments_kit.ts";
import { type deploying, eventsOf, manyDeploying } from "../../../../../test/fake_replicas.ts";
import { until } from "../../../../../test/harness.ts";

const { open, closeAll } = manyDeploying();
afterEach(closeAll);

const PATH = "/v1/experiments";
type App = Awaited<ReturnType<typeof deploying>>;
const create = async (app: App, more: object = {}) => {
  const body = {
    dataset: await newDataset(app, sums(2)),
    targets: [{ type: "model", model: "random" }],
    evaluators: ["accuracy"],
    ...more,
  };
  const answer = await app.call("POST", PATH, body);
  expect(answer.status).toBe(201);
  return answer.body.id as string;
};
const get = async (app: App, id: string) => (await app.call("GET", `${PATH}/${id}`)).body;
const deploymentOf = async (app: App, id: string) =>
  (await app.call("GET", `/v1/deployments/${(await get(app, id)).targets[0].deployment_id}`)).body;

test("a base model gets a temporary deployment that names its experiment and stops with the target", async () => {
  const app = await open();
  const { generate } = app.ctx.state.experiments.ports;
  fakePorts(app);
  app.ctx.state.experiments.ports = { ...app.ctx.state.experiments.ports, generate };
  const id = await create(app);
  await runAll(app);
  const done = await get(app, id);
  expect(done).toMatchObject({ status: "completed", progress: { done: 2, failed: 0 } });
  const deployment = await deploymentOf(app, id);
  expect(deployment).toMatchObject({ status: "stopped", metadata: { experiment_id: id, target: "random" } });
  const { body: found } = await app.call("GET", `${PATH}?deployment_id=${deployment.id}`);
  expect(found.data).toEqual([done]);
  const { data } = (await app.call("GET", `${PATH}/${id}/items`)).body;
  const { trace_id: traceId, row_id } = data[0]; // toMatchObject writes the matchers into what it is given
  expect(data[0]).toMatchObject({
    output: "w0 w1 w2 ",
    completion_tokens: 3,
    request_id: expect.stringMatching(/^req_/),
    trace_id: expect.stringMatching(/^trc_/),
  });
  const link = { id: data[0].id, experiment_id: id, row_id };
  const traceOf = async (key?: string) => {
    const path = `/v1/traces/${traceId}`;
    return key === undefined ? await app.call("GET", path) : await app.call("GET", path, undefined, { key });
  };
  await until("the trace", async () => (await traceOf()).status === 200);
  expect((await traceOf()).body.experiment_item).toEqual(link);
  expect((await traceOf(app.keyB)).status).toBe(404);
});

test("conformance note 12: a temporary deployment is in no list of the user and fires no event", async () => {
  const app = await open();
  const gate = Promise.withResolvers<void>();
  fakePorts(app, {
    answer: async () => {
      await gate.promise;
      return "1";
    },
  });
  const id = await create(app);
  const running = runAll(app);
  await until("the deployment", async () => (await get(app, id)).targets[0].deployment_id);
  const { id: deploymentId, name } = await deploymentOf(app, id);
  await app.reaches(deploymentId, "serving");
  const idsOf = async (path: string) => (await app.call("GET", path)).body.data.map((each: { id: string }) => each.id);
  expect(await idsOf("/v1/deployments")).not.toContain(deploymentId);
  expect(await idsOf("/v1/models")).not.toContain(name);
  gate.resolve();
  await running;
  expect((await deploymentOf(app, id)).status).toBe("stopped");
  expect(eventsOf(app, deploymentId)).toEqual([]);
});

test("a cancel stops the temporary deployment", async () => {
  const app = await open();
  const gate = Promise.withResolvers<void>();
  fakePorts(app, {
    async answer(_id, prompt) {
      await gate.promise;
      return solve(prompt);
    },
  });
  const id = await create(app);
  const running = runAll(app);
  await until("the deployment", async () => (await get(app, id)).targets[0].deployment_id);
  await app.call("POST", `${PATH}/${id}/cancel`);
  gate.resolve();
  await running;
  expect((await deploymentOf(app, id)).status).toBe("stopped");
});

test("a restart in the middle uses the same temporary deployment again", async () => {
  const app = await open();
  const stop = new AbortController();
  const seen = new Set<string>();
  fakePorts(app, {
    answer(id) {
      seen.add(id);
      if (seen.size === 1 && !stop.signal.aborted) stop.abort();
      return "x";
    },
  });
  const id = await create(app, { concurrency: 1 });
  await runAll(app, stop.signal);
  expect((await get(app, id)).status).toBe("running");
  await runAll(app);
  expect(await get(app, id)).toMatchObject({ status: "completed", progress: { done: 2 } });
  expect(seen.size).toBe(1);
});
