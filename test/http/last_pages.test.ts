/** Lists with an order of their own: the last page says that it is the last one, also when it is exactly full. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { newId } from "../../src/lib/ids.ts";
import * as gpu from "../../src/resources/machines/gpu/service.ts";
import { datasetCalls, prompts } from "../datasets_kit.ts";
import { type TestApp, testApp } from "../harness.ts";
import { insert } from "../insert_row.ts";
import { LISTS } from "../lists_kit.ts";

let app: TestApp;
beforeAll(() => {
  app = testApp();
});
afterAll(() => app.close().then(app.remove));

const datasets = datasetCalls(() => app);
const card = (index: number) => ({
  index,
  uuid: `GPU-${index}`,
  name: "NVIDIA H200",
  type: "H200",
  memoryTotalMib: 1_000,
  memoryUsedMib: 0,
  utilizationPercent: 0,
  temperatureCelsius: 40,
  powerWatts: 100,
  driverVersion: "1",
});

/** A dataset with three snapshots. */
async function grownDataset(): Promise<string> {
  const id = await datasets.create();
  for (const text of ["a", "b", "c"]) {
    await datasets.append(id, prompts(text, `${text} again`));
    await datasets.snapshot(id);
  }
  return id;
}

/** Each makes some items, and returns the address of their list. */
const FILLED: Record<string, () => Promise<string> | string> = {
  conversations: () => {
    for (const id of ["one", "two", "three"]) insert(app, "conversations", id, 1, {});
    return "/v1/traces/conversations";
  },
  "rows of a dataset": async () => `/v1/datasets/${await grownDataset()}/rows`,
  "snapshots of a dataset": async () => `/v1/datasets/${await grownDataset()}/snapshots`,
  "changes between snapshots": async () => {
    const id = await grownDataset();
    return `/v1/datasets/${id}/snapshots/@snap-1/diff/@snap-3`;
  },
  events: async () => {
    for (const url of ["https://example.com/a", "https://example.com/b"])
      await app.call("POST", "/v1/webhooks", { url });
    return "/v1/events";
  },
  devices: () => {
    gpu.useProbe(app.ctx, async () => [card(0), card(1), card(2)]);
    return "/v1/gpu";
  },
  regions: () => {
    for (const name of ["a", "b"])
      insert(app, "regions", newId("reg"), 1, { name, kind: "ssh", host_key: "ssh-ed25519 AAAA" });
    return "/v1/regions";
  },
  "items of a response": () => {
    const id = newId("resp");
    const items = ["a", "b", "c"].map((content) => ({ type: "message", role: "user", content }));
    insert(app, "responses", id, 1, { status: "completed", input: JSON.stringify(items), response: "{}" });
    return `/v1/responses/${id}/input_items`;
  },
  "items of a conversation": async () => {
    const items = ["a", "b", "c"].map((content) => ({ role: "user", content }));
    const { body } = await app.call("POST", "/v1/conversations", { items });
    return `/v1/conversations/${body.id}/items`;
  },
  "stored chats": () => {
    for (const id of ["a", "b", "c"])
      insert(app, "client_completions", id, 1, { metadata: "{}", messages: "[]", completion: "{}" });
    return "/v1/chat/completions";
  },
  "messages of a stored chat": () => {
    const messages = JSON.stringify(["a", "b", "c"].map((content) => ({ role: "user", content })));
    insert(app, "client_completions", "d", 1, { metadata: "{}", messages, completion: "{}" });
    return "/v1/chat/completions/d/messages";
  },
  "samples of a job": () => {
    const job = LISTS.find(({ table }) => table === "training_checkpoints")?.at?.(app)["id"] ?? "";
    const add = app.ctx.db.$client.prepare(
      `INSERT INTO training_samples (job_id, step, number, prompt, completion, sub_rewards, tokens, truncated)
       VALUES (?, 1, ?, '"p"', 'c', '{}', 1, 0)`,
    );
    for (const number of [0, 1, 2]) add.run(job, number);
    return `/v1/training_jobs/${job}/samples`;
  },
  "files of a volume": async () => {
    await app.call("POST", "/v1/volumes", { name: "lab" });
    for (const path of ["a", "b", "c"])
      await app.call("PUT", `/v1/volumes/lab/files/${path}`, undefined, { raw: path });
    return "/v1/volumes/lab/files";
  },
};

/** The answer without the check against the document: the rows are not complete. */
async function pageOf(path: string, limit: number): Promise<{ data: unknown[]; has_more: boolean }> {
  const headers = { authorization: `Bearer ${app.keyA}` };
  const response = await app.handle(new Request(`http://localhost${path}?limit=${limit}`, { headers }));
  expect([path, response.status]).toEqual([path, 200]);
  return (await response.json()) as { data: unknown[]; has_more: boolean };
}

test.each(Object.entries(FILLED))("P15 %s: a page that is exactly full is the last one", async (_name, fill) => {
  const path = await fill();
  const all = await pageOf(path, 100);
  expect([all.data.length >= 2, all.has_more]).toEqual([true, false]);
  const whole = await pageOf(path, all.data.length);
  expect([whole.data.length, whole.has_more]).toEqual([all.data.length, false]);
  const shorter = await pageOf(path, all.data.length - 1);
  expect([shorter.data.length, shorter.has_more]).toEqual([all.data.length - 1, true]);
});
