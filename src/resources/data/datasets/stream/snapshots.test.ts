import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { datasetCalls, prompts } from "../../../../../test/datasets_kit.ts";
import { type TestApp, testApp } from "../../../../../test/harness.ts";
import { write } from "../../../../platform/db/db.ts";
import { sha256Bytes } from "../../../../platform/files.ts";
import { cutDue, pin, unpin } from "./snapshots.ts";

let app: TestApp;
beforeEach(() => {
  app = testApp();
});
afterEach(() => app.close().then(app.remove));

const { create, append, get, snapshot, exported, uploads, typed } = datasetCalls(() => app);

describe("snapshots", () => {
  test("hash what an export gives, as of their head, and stay what they were", async () => {
    const id = await create();
    await append(id, prompts("a", "b", "c"));
    const first = await snapshot(id, { note: "before" });
    expect(first).toMatchObject({
      status: 201,
      body: { id: "@snap-1", number: 1, head_row: 3, row_count: 3, trigger: "manual", note: "before", job_id: null },
    });
    await append(id, [
      { _op: "supersede", _row_id: 2, prompt: "B" },
      { _op: "tombstone", _row_id: 3 },
    ]);
    const second = await snapshot(id);
    expect(second.body).toMatchObject({ id: "@snap-2", head_row: 5, row_count: 2 });
    await append(id, [{ _op: "tombstone", _row_id: 1 }]);
    const [one, two] = [await exported(id, "?snapshot=@snap-1"), await exported(id, "?snapshot=snap-2")];
    expect(one).toBe('{"prompt":"a"}\n{"prompt":"b"}\n{"prompt":"c"}\n');
    expect(two).toBe('{"prompt":"a"}\n{"prompt":"B"}\n');
    expect([sha256Bytes(one), sha256Bytes(two)]).toEqual([first.body.sha256, second.body.sha256]);
    const rows = (await app.call("GET", `/v1/datasets/${id}/rows?snapshot=@snap-2`)).body.data;
    expect(rows.map((row: { row_id: number }) => row.row_id)).toEqual([1, 4]);
    expect(await get(id)).toMatchObject({ latest_snapshot_id: "@snap-2", unsnapshotted_rows: 1, snapshot_count: 2 });
    const list = (await app.call("GET", `/v1/datasets/${id}/snapshots?limit=1`)).body;
    expect(list).toMatchObject({ data: [{ id: "@snap-2" }], has_more: true });
    const rest = (await app.call("GET", `/v1/datasets/${id}/snapshots?after=@snap-2`)).body;
    expect(rest).toMatchObject({ data: [{ id: "@snap-1" }], has_more: false });
  });

  test("are the newest one again when nothing came since, without an event", async () => {
    const id = await create();
    await append(id, prompts("a"));
    const [one, two] = await Promise.all([snapshot(id), snapshot(id)]);
    expect([one!.status, two!.status].sort()).toEqual([200, 201]);
    expect(two!.body).toEqual(one!.body);
    expect(typed("dataset.snapshot_created").map(({ data }) => data)).toEqual([
      { object: "dataset_snapshot", id: "@snap-1", dataset_id: id, head_row: 1, row_count: 1, trigger: "manual" },
    ]);
  });

  test("are the first answer again for a retry with the same Idempotency-Key, whatever came since", async () => {
    const id = await create();
    const headers = { "idempotency-key": "cut" };
    const cutOnce = () => app.call("POST", `/v1/datasets/${id}/snapshots`, { note: "n" }, { headers });
    await append(id, prompts("a"));
    const first = await cutOnce();
    await append(id, prompts("b"));
    const again = await cutOnce();
    expect(again).toMatchObject({ status: 201, body: first.body });
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(await get(id)).toMatchObject({ snapshot_count: 1, unsnapshotted_rows: 1 });
  });

  test("keep their hash over a restart, an export and a new import", async () => {
    const id = await create();
    await append(id, prompts("a", "b"));
    await append(id, [{ _op: "supersede", _row_id: 1, prompt: "Ä", n: 1.5 }]);
    const { sha256 } = (await snapshot(id)).body;
    await app.close();
    app = testApp({ dir: app.dir });
    await append(id, prompts("c"));
    await append(id, [{ _op: "tombstone", _row_id: 4 }]); // live again what it was
    expect((await snapshot(id)).body).toMatchObject({ id: "@snap-2", sha256, row_count: 2 });
    const { body } = await uploads(await exported(id), "again");
    expect((await snapshot(body.id)).body).toMatchObject({ sha256, row_count: 2 });
  });

  test("of an empty stream are the hash of nothing", async () => {
    const { body, status } = await snapshot(await create());
    expect(status).toBe(201);
    expect(body).toMatchObject({ head_row: 0, row_count: 0, sha256: sha256Bytes("") });
  });

  test("tell what came between two of them", async () => {
    const id = await create();
    await append(id, prompts("a", "b"));
    await snapshot(id);
    await append(id, [
      { prompt: "c" },
      { _op: "supersede", _row_id: 1, prompt: "A" },
      { _op: "tombstone", _row_id: 2 },
    ]);
    await snapshot(id);
    const path = `/v1/datasets/${id}/snapshots/@snap-1/diff/@snap-2`;
    expect((await app.call("GET", path)).body).toEqual({
      object: "dataset.diff",
      dataset_id: id,
      from: "@snap-1",
      to: "@snap-2",
      added: 1,
      superseded: 1,
      tombstoned: 1,
      has_more: false,
      data: [
        { object: "dataset_change", change: "added", row_id: 3, target_row_id: null, data: { prompt: "c" } },
        { object: "dataset_change", change: "superseded", row_id: 4, target_row_id: 1, data: { prompt: "A" } },
        { object: "dataset_change", change: "tombstoned", row_id: 5, target_row_id: 2, data: null },
      ],
    });
    const part = (await app.call("GET", `${path}?limit=1&after=3`)).body;
    expect(part).toMatchObject({ data: [{ row_id: 4 }], has_more: true, added: 1 });
    const turned = await app.call("GET", `/v1/datasets/${id}/snapshots/@snap-2/diff/@snap-1`);
    expect(turned).toMatchObject({ status: 400, body: { error: { message: expect.stringContaining("swap") } } });
    expect((await app.call("GET", `/v1/datasets/${id}/snapshots/@snap-9`)).status).toBe(404);
  });

  test("are cut by the rule once enough rows landed", async () => {
    const id = await create({ auto_snapshot_rows: 3 });
    await append(id, prompts("a", "b"));
    await cutDue(app.ctx);
    expect(await get(id)).toMatchObject({ snapshot_count: 0 });
    await append(id, prompts("c", "d"));
    expect(app.woken).toContain("datasets.snapshots");
    await cutDue(app.ctx);
    await cutDue(app.ctx);
    expect(await get(id)).toMatchObject({ snapshot_count: 1, unsnapshotted_rows: 0 });
    expect(typed("dataset.snapshot_created")[0]?.data).toMatchObject({ trigger: "auto", head_row: 4 });
    await app.call("PATCH", `/v1/datasets/${id}`, { auto_snapshot_rows: null, name: "renamed" });
    await append(id, prompts("e", "f", "g"));
    await cutDue(app.ctx);
    expect(await get(id)).toMatchObject({ snapshot_count: 1, name: "renamed", auto_snapshot_rows: null });
  });

  test("are pinned for a job, which keeps the dataset from being deleted", async () => {
    const id = await create();
    await append(id, prompts("a"));
    const latest = await pin(app.ctx, app.workspaceA, `${id}@latest`, "job_1");
    expect(latest.snapshot).toMatchObject({ number: 1, trigger: "job_pin", jobId: "job_1" });
    const same = await pin(app.ctx, app.workspaceA, `${id}@snap-1`, "job_2");
    expect(same.snapshot.number).toBe(1);
    expect(typed("dataset.snapshot_created")).toHaveLength(1);
    const held = await app.call("DELETE", `/v1/datasets/${id}`);
    expect(held).toMatchObject({ status: 400, body: { error: { code: "unsupported_state" } } });
    for (const job of ["job_1", "job_2"]) write(app.ctx.db, (tx) => unpin(tx, job));
    expect((await app.call("DELETE", `/v1/datasets/${id}`)).status).toBe(200);
    expect(await pin(app.ctx, app.workspaceB, id, "job_3").catch((error) => error.code)).toBe("resource_not_found");
  });
});
