import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { annotationCalls, pair } from "../../../../test/annotations_kit.ts";
import { type TestApp, testApp } from "../../../../test/harness.ts";
import { AppError } from "../../../lib/errors.ts";
import { itemsFrom } from "./service.ts";

let app: TestApp;
beforeEach(() => {
  app = testApp();
});
afterEach(() => app.close().then(app.remove));

const { dataset, create, get } = annotationCalls(() => app);
const PATH = "/v1/annotation_queues";

describe("items", () => {
  test("come from the rows of a dataset, by its format or by the columns that are named", async () => {
    const source = await dataset("preference");
    const given = [
      { prompt: "p1", chosen: "c1", rejected: "r1" },
      { prompt: "p2", chosen: [{ role: "assistant", content: "c2" }], rejected: "r2" },
      { prompt: "p3", chosen: "c3", rejected: "r3" },
    ];
    await app.call("POST", `/v1/datasets/${source}/rows`, { rows: given });
    await app.call("POST", `/v1/datasets/${source}/snapshots`);
    await app.call("POST", `/v1/datasets/${source}/rows`, { rows: [{ _op: "tombstone", _row_id: 3 }] });
    const queue = await create({ mode: "pairwise" });
    const from = (asked: object) => app.call("POST", `${PATH}/${queue}/items`, { dataset: { id: source, ...asked } });
    const { body } = await from({ after_row_id: 1 });
    expect(body.added).toBe(1);
    expect(await get(queue, body.item_ids[0])).toMatchObject({
      input: "p2",
      outputs: ["c2", "r2"],
      source: { type: "dataset", dataset_id: source, row_id: 2 },
    });
    expect((await from({ id: `${source}@snap-1` })).body.added).toBe(3);
    expect((await from({ limit: 1 })).body.added).toBe(1);
    expect((await from({ fields: { outputs: ["chosen", "other"] } })).body.error).toMatchObject({
      code: "schema",
      param: "/dataset/fields/outputs",
      message: expect.stringContaining(`row 1 of ${source} has no text in other`),
    });
    expect((await app.call("GET", `${PATH}/${queue}`)).body.items).toMatchObject({ pending: 5, completed: 0 });
  });

  test("of a chat dataset take the last answer as their output", async () => {
    const source = await dataset("chat");
    const [question, answer] = [
      { role: "user", content: "hi" },
      { role: "assistant", content: "hello" },
    ];
    await app.call("POST", `/v1/datasets/${source}/rows`, { rows: [{ messages: [question, answer] }] });
    const queue = await create({ mode: "single" });
    const { body } = await app.call("POST", `${PATH}/${queue}/items`, { dataset: { id: source } });
    expect(await get(queue, body.item_ids[0])).toMatchObject({ input: [question], outputs: ["hello"] });
  });

  test.each([
    ["trace_ids", "trace", "capture"],
    ["experiment_item_ids", "experiment", "wait"],
  ] as const)("come from %s, and are found from there", async (field, type, advice) => {
    const queue = await create({ mode: "pairwise" });
    const post = (ids: string[], more = {}) =>
      app.call("POST", `${PATH}/${queue}/items`, { items: [{ [field]: ids, ...more }] });
    expect((await post(["x_a", "x_b"])).body.error).toMatchObject({ param: `/items/0/${field}/0` });
    const input = [{ role: "user", content: "same" }];
    const answer = (content: string) => ({ role: "assistant", content });
    app.ctx.state.annotationQueues.readers[field] = (_ctx, _workspace, id) => {
      if (id === "x_empty") return { input, output: null };
      if (id === "x_other") return { input: "another", output: [id] };
      if (id === "x_both") return { input, output: [answer("x"), answer("y")], reference: "right" };
      if (id.startsWith("x_")) return { input, output: id };
      throw new AppError("resource_not_found", `No ${id}`, { param: "id" });
    };
    const { body } = await post(["x_a", "x_b"]);
    expect(await get(queue, body.item_ids[0])).toMatchObject({
      input,
      outputs: ["x_a", "x_b"],
      reference: null,
      source: { type, [field]: ["x_a", "x_b"] },
    });
    const link = { id: body.item_ids[0], queue_id: queue, status: "pending" as const };
    for (const id of ["x_a", "x_b"]) expect(itemsFrom(app.ctx, app.workspaceA, id)).toEqual([link]);
    expect(itemsFrom(app.ctx, app.workspaceB, "x_a")).toEqual([]);
    const both = (await post(["x_both"])).body.item_ids[0];
    expect(await get(queue, both)).toMatchObject({ outputs: ["x", "y"], reference: "right" });
    const twice = (await post(["x_a", "x_a"])).body.item_ids[0];
    expect(itemsFrom(app.ctx, app.workspaceA, "x_a").map(({ id }) => id)).toEqual([twice, link.id]);
    expect((await post(["x_a", "y"])).body.error).toMatchObject({ param: `/items/0/${field}/1` });
    expect((await post(["x_a", "x_empty"])).body.error.message).toContain(advice);
    expect((await post(["x_a", "x_other"])).body.error.message).toContain("different inputs");
    expect((await post(["x_a"])).body.error.message).toContain("two");
    expect((await post(["x_a", "x_b"], { input: "i" })).body.error).toMatchObject({ param: `/items/0/${field}` });
    const single = await create({ mode: "single" });
    const alone = await app.call("POST", `${PATH}/${single}/items`, { items: [{ [field]: ["x_a", "x_b"] }] });
    expect(alone.body.error.message).toContain("one at most");
  });

  test("are added together or not at all, and once for each Idempotency-Key", async () => {
    const queue = await create({ mode: "pairwise" });
    const post = (items: object[], key?: string) =>
      app.call("POST", `${PATH}/${queue}/items`, { items }, key ? { headers: { "idempotency-key": key } } : {});
    expect(await post([pair("a"), { input: "b", outputs: ["one"] }])).toMatchObject({
      status: 422,
      body: { error: { param: "/items/1/outputs" } },
    });
    const first = await post([pair("a")], "k");
    expect((await post([pair("a")], "k")).body).toEqual(first.body);
    expect((await app.call("GET", `${PATH}/${queue}/items?status=pending`)).body.data).toHaveLength(1);
    expect((await app.call("POST", `${PATH}/${queue}/items`, {})).body.error.param).toBe("/items");
  });
});
