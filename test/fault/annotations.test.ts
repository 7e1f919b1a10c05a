// tier: all (sweeps of faults)
/** Annotation queues after any fault: no acknowledged annotation is lost, and no item appends its row twice. */
import { Database } from "bun:sqlite";
import { afterEach, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { appendLeft } from "../../src/resources/quality/annotation_queues/append.ts";
import { annotationCalls, pair } from "../annotations_kit.ts";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { atEveryFailpoint, type TestApp, tempDir, testApp, until } from "../harness.ts";
import { randomFor, sweep } from "../sweep.ts";
import { violations } from "./invariants.ts";

const dirs: string[] = [];
const fresh = () => {
  dirs.push(tempDir());
  return dirs.at(-1) as string;
};
afterEach(() => {
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
});

let app: TestApp;
const { dataset, create, add, next, annotate, get, rows } = annotationCalls(() => app);

test("a crash at every failpoint of an annotation: it is kept once it is acknowledged, its row is there once", async () => {
  const crashes = await atEveryFailpoint(async (attempt) => {
    const dir = fresh();
    app = testApp({ dir });
    const target = await dataset("preference");
    const queue = await create({ mode: "pairwise", dataset_id: target, annotators_per_item: 2 });
    const [first, second] = (await add(queue, ["one", "two"].map(pair))) as [string, string];
    for (const id of [first, second]) await annotate(queue, id, "ada", { preferred: "first" });
    const acknowledged: string[] = [];
    const annotateBoth = () =>
      Promise.all(
        [first, second].map(async (id) => {
          const { status } = await annotate(queue, id, "bo", { preferred: "first" });
          if (status === 201) acknowledged.push(id);
        }),
      );
    await attempt(async () => {
      await next(queue, "bo");
      await annotateBoth();
    });
    await app.close().catch(() => {});
    app = testApp({ dir });
    await appendLeft(app.ctx);
    for (const id of acknowledged)
      expect((await get(queue, id)).annotations).toMatchObject([{ annotator: "ada" }, { annotator: "bo" }]);
    await annotateBoth(); // a client that got no answer sends it again
    await appendLeft(app.ctx);
    const found = await rows(target);
    expect(found.map((row) => row["annotation_item_id"]).sort()).toEqual([first, second].sort());
    for (const id of [first, second]) {
      const item = await get(queue, id);
      expect(item).toMatchObject({ status: "completed", dataset_id: target });
      expect(found[item.dataset_row_id - 1]?.["annotation_item_id"]).toBe(id);
    }
    await app.close();
    expect(violations(dir)).toEqual([]);
  });
  expect(crashes).toBeGreaterThan(8);
}, 120_000);

const ROUNDS = sweep({ quick: 1, full: 8 });
const ITEMS = sweep({ quick: 40, full: 200 });
const ANNOTATORS = 2; // of each item
const random = randomFor("annotations.kill");

test("killed at any moment while eight people annotate: every item has its row once in the end", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const dir = fresh();
    const { key } = await makeKey(dir);
    let server = await startBinary({ dir, key });
    const call = async (path: string, body: object) => {
      const { status, body: answer } = await server.call("POST", path, body);
      if (status >= 300) throw new Error(JSON.stringify(answer));
      // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the server answered
      return answer as any;
    };
    const target = (await call("/v1/datasets", { name: "p", format: "preference" })).id as string;
    const settings = {
      name: "q",
      mode: "pairwise",
      dataset_id: target,
      annotators_per_item: ANNOTATORS,
      lease_seconds: 10,
    };
    const path = `/v1/annotation_queues/${(await call("/v1/annotation_queues", settings)).id}`;
    await call(`${path}/items`, { items: Array.from({ length: ITEMS }, (_, i) => pair(`${i}`)) });
    const acknowledged = new Set<string>();
    const work = async (annotator: string) => {
      for (;;) {
        const { item } = await call(`${path}/next`, { annotator });
        if (!item) return;
        await call(`${path}/items/${item.id}/annotations`, { annotator, preferred: "first" });
        acknowledged.add(`${item.id} ${annotator}`);
      }
    };
    const people = Array.from({ length: 8 }, (_, i) => `p${i}`);
    const before = people.map((name) => work(name).catch(() => {}));
    const killAfter = Math.floor(random() * 0.8 * ITEMS * ANNOTATORS);
    await until("the work to run", () => acknowledged.size >= killAfter);
    await server.kill("SIGKILL");
    await Promise.all(before);
    expect(violations(dir)).toEqual([]);
    server = await startBinary({ dir, key });
    await until("the queue to be empty", async () => {
      await Promise.all(people.map(work));
      const { items } = (await server.call("GET", path)).body as { items: Record<string, number> };
      return items["completed"] === ITEMS;
    });
    await server.kill("SIGTERM");
    expect(violations(dir)).toEqual([]);
    const db = new Database(join(dir, "verk.db"), { readonly: true });
    const stored = db.query<{ key: string }, []>("SELECT item_id || ' ' || annotator AS key FROM annotations").all();
    expect([...acknowledged].filter((each) => !stored.some(({ key }) => key === each))).toEqual([]);
    expect(db.query("SELECT head_row, live_rows FROM datasets WHERE id = ?").get(target)).toEqual({
      head_row: ITEMS,
      live_rows: ITEMS,
    });
    db.close();
  }
}, 120_000);
