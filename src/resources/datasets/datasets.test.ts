import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import { type TestApp, testApp, until } from "../../../test/harness.ts";
import type { EventType } from "../../events/catalog.ts";
import { events } from "../../events/table.ts";
import { write } from "../../platform/db.ts";
import { sha256Bytes } from "../../platform/files.ts";
import { cutDue, pin, unpin } from "./snapshots.ts";
import { sweep } from "./sweep.ts";

let app: TestApp;
beforeEach(() => {
  app = testApp();
});
afterEach(() => app.close().then(app.remove));

const NDJSON = { "content-type": "application/x-ndjson" };
const create = async (more: object = {}) =>
  (await app.call("POST", "/v1/datasets", { name: "stream", format: "prompt", ...more })).body.id as string;
const append = (id: string, rows: object[], more: object = {}) =>
  app.call("POST", `/v1/datasets/${id}/rows`, { rows, ...more });
const prompts = (...texts: string[]) => texts.map((prompt) => ({ prompt }));
const get = async (id: string) => (await app.call("GET", `/v1/datasets/${id}`)).body;
const snapshot = (id: string, body?: object) => app.call("POST", `/v1/datasets/${id}/snapshots`, body);
const exported = async (id: string, query = "") =>
  (await app.call("GET", `/v1/datasets/${id}/rows/export${query}`)).body as string;
const uploads = (text: string | Blob, name = "up", key?: string) => {
  const form = new FormData();
  form.append("name", name);
  form.append("file", text instanceof Blob ? text : new File([text], "rows.jsonl"));
  return app.call("POST", "/v1/datasets", undefined, { raw: form, ...(key ? { key } : {}) });
};
const files = () => readdirSync(join(app.dir, "datasets")).filter((name) => !name.endsWith("-shm"));
const typed = (type: EventType) => app.ctx.db.select().from(events).where(eq(events.type, type)).all();

describe("a stream", () => {
  test("begins empty and shows how it stands", async () => {
    const { body, status } = await app.call("POST", "/v1/datasets", {
      name: "s",
      format: "chat",
      auto_snapshot_rows: 5,
      metadata: { a: "b" },
    });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      ...{ object: "dataset", source_type: "upload", format: "chat", head_row: 0, num_rows: 0 },
      ...{ auto_snapshot_rows: 5, latest_snapshot_id: null, unsnapshotted_rows: 0, snapshot_count: 0 },
      ...{ source_uri: null, hub_dataset: null, metadata: { a: "b" } },
    });
    expect((await app.call("GET", `/v1/datasets/${body.id}/rows`)).body).toEqual({
      object: "list",
      data: [],
      has_more: false,
    });
    expect(await exported(body.id)).toBe("");
  });

  test("counts its rows 1, 2, 3 and tells of each batch once", async () => {
    const id = await create();
    expect((await append(id, prompts("a", "b"))).body).toMatchObject({
      ...{ object: "dataset.append", dataset_id: id, first_row_id: 1, last_row_id: 2, appended: 2 },
      ...{ superseded: 0, tombstoned: 0, head_row: 2, unsnapshotted_rows: 2 },
    });
    const second = await append(id, [...prompts("c"), { _op: "supersede", _row_id: 1, prompt: "A" }]);
    expect(second.body).toMatchObject({ first_row_id: 3, last_row_id: 4, appended: 1, superseded: 1, head_row: 4 });
    expect(await get(id)).toMatchObject({ head_row: 4, num_rows: 3, unsnapshotted_rows: 4 });
    expect(typed("dataset.rows_appended").map(({ data }) => data)).toEqual([
      expect.objectContaining({ object: "dataset", id, first_row_id: 1, last_row_id: 2, count: 2, head_row: 2 }),
      expect.objectContaining({ batch_id: second.body.batch_id, first_row_id: 3, count: 2, head_row: 4 }),
    ]);
  });

  test("takes a batch whole or not at all, and says which row is wrong", async () => {
    const id = await create();
    const bad = await append(id, [{ prompt: "a" }, { prompt: 7 }]);
    expect(bad).toMatchObject({ status: 422, body: { error: { code: "schema", param: "/rows/1/prompt" } } });
    const lines = '{"prompt":"a"}\n\n{"promt":"b"}\n';
    const asLines = await app.call("POST", `/v1/datasets/${id}/rows`, undefined, { raw: lines, headers: NDJSON });
    expect(asLines.body.error).toMatchObject({ code: "schema", param: "/2/prompt" });
    expect(asLines.body.error.message).toStartWith("Line 3: prompt is missing");
    for (const rows of [[], [null], ["x"], 7] as unknown[])
      expect((await append(id, rows as object[])).status).toBe(422);
    expect(await get(id)).toMatchObject({ head_row: 0 });
    expect(typed("dataset.rows_appended")).toEqual([]);
  });

  test("refuses rows of another format than its own", async () => {
    const id = await create({ format: "preference" });
    expect((await append(id, prompts("a"))).body.error.message).toContain("chosen is missing");
    expect((await append(id, [{ prompt: "a", chosen: "b", rejected: "c" }])).status).toBe(201);
  });

  test("moves only from the head that was expected", async () => {
    const id = await create();
    expect((await append(id, prompts("a"), { expected_head_row: 0 })).status).toBe(201);
    const late = await append(id, prompts("b"), { expected_head_row: 0 });
    expect(late).toMatchObject({ status: 409, body: { error: { code: "head_moved", param: "/expected_head_row" } } });
    for (const expected_head_row of ["", "1", [], [1], true, 0.5, -1])
      expect((await append(id, prompts("b"), { expected_head_row })).body.error.code).toBe("schema");
    const path = `/v1/datasets/${id}/rows?expected_head_row=1`;
    const raw = { raw: '{"prompt":"b"}\n', headers: NDJSON };
    expect((await app.call("POST", path, undefined, raw)).status).toBe(201);
    expect((await app.call("POST", path, undefined, raw)).status).toBe(409);
    for (const odd of ["", "2e0", "+2", "x"])
      expect((await app.call("POST", `${path.slice(0, -1)}${odd}`, undefined, raw)).body.error.code).toBe("schema");
  });

  test("changes what a batch that lands with it has changed", async () => {
    const id = await create();
    await append(id, prompts("a", "b"));
    const together = await Promise.all([
      append(id, [{ _op: "supersede", _row_id: 1, prompt: "A" }]),
      append(id, [{ _op: "supersede", _row_id: 3, prompt: "AA" }]),
      append(id, [{ _op: "tombstone", _row_id: 2 }]),
      append(id, [{ _op: "tombstone", _row_id: 5 }]),
    ]);
    expect(together.map(({ status }) => status)).toEqual([201, 201, 201, 422]);
    expect(together[3]?.body.error.message).toContain("Entry 5 is a tombstone");
    expect(await exported(id)).toBe('{"prompt":"AA"}\n');
    expect(await get(id)).toMatchObject({ head_row: 5, num_rows: 1 });
  });

  test("as CSV has only what its rows have, and a line for each of them", async () => {
    const id = await create();
    const lines = '{"prompt":"a","__proto__":{"x":1}}\n{"prompt":"b","constructor":5}\n{"prompt":"c"}\n';
    await app.call("POST", `/v1/datasets/${id}/rows`, undefined, { raw: lines, headers: NDJSON });
    expect(await exported(id, "?format=csv")).toBe('prompt,__proto__,constructor\r\na,"{""x"":1}",\r\nb,,5\r\nc,,\r\n');
    const empty = await create();
    await append(empty, prompts("", "x"));
    expect(await exported(empty, "?format=csv")).toBe('prompt\r\n""\r\nx\r\n');
  });

  test("names rows that can be changed, and refuses the others", async () => {
    const id = await create();
    await append(id, prompts("a", "b", "c"));
    await append(id, [
      { _op: "supersede", _row_id: 2, prompt: "B" },
      { _op: "tombstone", _row_id: 3 },
    ]);
    const refusal = async (row: object) => (await append(id, [row])).body.error?.message;
    expect(await refusal({ _op: "tombstone", _row_id: 9 })).toContain("There is no row 9: the newest is 5");
    expect(await refusal({ _op: "supersede", _row_id: 3, prompt: "x" })).toContain("Row 3 is gone: entry 5 removed it");
    expect(await refusal({ _op: "supersede", _row_id: 5, prompt: "x" })).toContain("Entry 5 is a tombstone");
    expect(await refusal({ _op: "supersede", prompt: "x" })).toContain("_row_id must name the row");
    expect(await refusal({ _op: "delete", _row_id: 1 })).toContain("_op must be one of");
    expect(await refusal({ _row_id: 1, prompt: "x" })).toContain("_row_id goes with _op");
    const twice = [
      { _op: "tombstone", _row_id: 1 },
      { _op: "tombstone", _row_id: 1 },
    ];
    expect((await append(id, twice)).body.error).toMatchObject({ param: "/rows/1/_row_id" });
    expect((await append(id, [{ _op: "supersede", _row_id: 4, prompt: "BB" }])).status).toBe(201); // 4 is row 2's newest
    expect(await exported(id)).toBe('{"prompt":"a"}\n{"prompt":"BB"}\n');
    expect(await get(id)).toMatchObject({ head_row: 6, num_rows: 2 });
  });

  test("gives the first answer to a retry with the same Idempotency-Key, also at the same time", async () => {
    const id = await create();
    const headers = { "idempotency-key": "k1" };
    const send = (prompt = "a") => app.call("POST", `/v1/datasets/${id}/rows`, { rows: [{ prompt }] }, { headers });
    const [first, second] = await Promise.all([send(), send()]);
    const third = await send();
    expect(second!.body).toEqual(first!.body);
    expect(third.body).toEqual(first!.body);
    expect(third.headers.get("idempotent-replayed")).toBe("true");
    expect(await send("b")).toMatchObject({ status: 409, body: { error: { code: "idempotency_mismatch" } } });
    expect(await get(id)).toMatchObject({ head_row: 1 });
  });

  test("keeps sixteen clients apart: ids without a gap, whole batches, one event each", async () => {
    const id = await create();
    const clients = Array.from({ length: 16 }, async (_, client) => {
      for (let i = 0; i < 10; i++)
        await append(
          id,
          Array.from({ length: 7 }, (_, k) => ({ prompt: "p", client, batch: i, k })),
        );
    });
    await Promise.all(clients);
    const text = await exported(id);
    const rows = text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(rows).toHaveLength(16 * 10 * 7);
    for (let at = 0; at < rows.length; at += 7) {
      const { client, batch } = rows[at];
      expect(rows.slice(at, at + 7)).toEqual(Array.from({ length: 7 }, (_, k) => ({ prompt: "p", client, batch, k })));
    }
    const spans = typed("dataset.rows_appended").map(({ data }) => {
      const { first_row_id, last_row_id } = data as Record<string, number>;
      return [first_row_id, last_row_id];
    });
    expect(spans).toEqual(Array.from({ length: 160 }, (_, i) => [i * 7 + 1, i * 7 + 7]));
    expect(await get(id)).toMatchObject({ head_row: 1120, num_rows: 1120 });
  });

  test("shows its log, and its live rows each in its place, page by page", async () => {
    const id = await create();
    await append(id, prompts("a", "b", "c", "d"));
    await append(id, [
      { _op: "supersede", _row_id: 2, prompt: "B" },
      { _op: "tombstone", _row_id: 1 },
      { prompt: "e" },
    ]);
    const page = async (query: string) => (await app.call("GET", `/v1/datasets/${id}/rows?${query}`)).body;
    const log = await page("limit=100");
    expect(log.data.map((row: { row_id: number }) => row.row_id)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(log.data[4]).toMatchObject({ op: "supersede", target_row_id: 2, data: { prompt: "B" } });
    expect(log.data[5]).toMatchObject({ op: "tombstone", target_row_id: 1, data: null });
    const seen: [number, string][] = [];
    for (let after = ""; ; ) {
      const { data, has_more } = await page(`limit=1&live=true${after}`);
      for (const row of data) seen.push([row.row_id, row.data.prompt]);
      if (!has_more) break;
      after = `&after=${data.at(-1).row_id}`;
    }
    expect(seen).toEqual([
      [5, "B"],
      [3, "c"],
      [4, "d"],
      [7, "e"],
    ]);
    expect((await app.call("GET", `/v1/datasets/${id}/rows?after=x`)).body.error.code).toBe("invalid_cursor");
    expect((await app.call("GET", `/v1/datasets/${id}/rows?limit=0`)).body.error.param).toBe("limit");
  });
});

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
      ...{ object: "dataset.diff", dataset_id: id, from: "@snap-1", to: "@snap-2" },
      ...{ added: 1, superseded: 1, tombstoned: 1, has_more: false },
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

describe("an upload", () => {
  test("is checked, counted and its format locked", async () => {
    const { status, body } = await uploads('{"prompt":"a","answer":1}\n{"prompt":"b"}\n');
    expect(status).toBe(201);
    expect(body).toMatchObject({ source_type: "upload", num_rows: 2, head_row: 2, format: "prompt", name: "up" });
    expect((await append(body.id, prompts("c"))).body).toMatchObject({ first_row_id: 3 });
    expect(await exported(body.id)).toBe('{"prompt":"a","answer":1}\n{"prompt":"b"}\n{"prompt":"c"}\n');
  });

  test("of the same content is the same dataset, in one workspace", async () => {
    const text = '{"prompt":"same"}\n';
    const first = await uploads(text, "one");
    const second = await uploads(text, "two");
    expect(second).toMatchObject({ status: 200, body: { id: first.body.id, name: "one" } });
    expect((await uploads(text, "three", app.keyB)).body.id).not.toBe(first.body.id);
    const other = '{"prompt":"race"}\n'.repeat(5000);
    const both = await Promise.all([uploads(other, "x"), uploads(other, "y")]);
    expect(both.map(({ status }) => status).sort()).toEqual([200, 201]);
    expect(both[0]!.body.id).toBe(both[1]!.body.id);
    expect(files()).toHaveLength(3);
    await app.call("DELETE", `/v1/datasets/${first.body.id}`);
    expect((await uploads(text, "anew")).status).toBe(201);
  });

  test("with a bad line is refused with its number and leaves nothing behind", async () => {
    const text = `${'{"prompt":"good"}\n'.repeat(1000)}{"prompt":}\n`;
    const { status, body } = await uploads(text);
    expect(status).toBe(422);
    expect(body.error).toMatchObject({ code: "schema", param: "file" });
    expect(body.error.message).toStartWith("Line 1001: it is not valid JSON");
    expect(files()).toEqual([]);
    expect((await app.call("GET", "/v1/datasets")).body.data).toEqual([]);
  });

  test.each([
    ["no file", (form: FormData) => form.append("name", "n"), "file"],
    ["no name", (form: FormData) => form.append("file", new File(['{"prompt":"a"}'], "a")), "name"],
    ["an empty file", (form: FormData) => [form.append("name", "n"), form.append("file", new File([], "a"))], "file"],
    [
      "operations in it",
      (form: FormData) => [
        form.append("name", "n"),
        form.append("file", new File(['{"_op":"tombstone","_row_id":1}'], "a")),
      ],
      "file",
    ],
    [
      "another field for the file",
      (form: FormData) => [form.append("name", "n"), form.append("data", new File(['{"prompt":"a"}'], "a"))],
      "file",
    ],
  ])("with %s is refused by the name of the field", async (_, fill, param) => {
    const form = new FormData();
    fill(form);
    expect(await app.call("POST", "/v1/datasets", undefined, { raw: form })).toMatchObject({
      status: 422,
      body: { error: { code: "schema", param } },
    });
    expect(files()).toEqual([]);
  });

  test("over the limit is 413", async () => {
    await app.close();
    app.remove();
    app = testApp({ flags: { "datasets.max_upload_bytes": 2000, "datasets.max_row_bytes": 1024 } });
    expect((await uploads('{"prompt":"a"}\n'.repeat(1000))).status).toBe(413);
    expect((await uploads(`{"prompt":"${"a".repeat(1100)}"}`)).body.error.message).toBe(
      "Line 1: it is longer than 1024 bytes",
    );
    expect(files()).toEqual([]);
  });
});

describe("deleting", () => {
  test("takes the rows with it, and a reader in the middle reads on", async () => {
    const { body } = await uploads('{"prompt":"some text"}\n'.repeat(60_000));
    const request = new Request(`http://localhost/v1/datasets/${body.id}/rows/export`, {
      headers: { authorization: `Bearer ${app.keyA}` },
    });
    const reader = (await app.handle(request)).body!.getReader();
    let bytes = (await reader.read()).value!.byteLength;
    expect((await app.call("DELETE", `/v1/datasets/${body.id}`)).body).toEqual({
      id: body.id,
      object: "dataset",
      deleted: true,
    });
    await sweep(app.ctx);
    expect(files()).toEqual([]);
    for (let part = await reader.read(); !part.done; part = await reader.read()) bytes += part.value.byteLength;
    expect(bytes).toBe(body.size_bytes);
    expect((await app.call("GET", `/v1/datasets/${body.id}`)).status).toBe(404);
    expect((await append(body.id, prompts("x"))).status).toBe(404);
  });

  test("is not held up by a reader who left before the first byte", async () => {
    const { body } = await uploads('{"prompt":"some text"}\n'.repeat(600_000));
    const request = new Request(`http://localhost/v1/datasets/${body.id}/rows/export?format=csv`, {
      headers: { authorization: `Bearer ${app.keyA}` },
    });
    const reader = (await app.handle(request)).body!.getReader();
    void reader.read().catch(() => {});
    let turns = 0;
    let over = false;
    const count = () => {
      turns++;
      if (!over) setImmediate(count);
    };
    setImmediate(count);
    await reader.cancel();
    over = true;
    expect(turns).toBeLessThan(10); // 40 and more for the columns of all rows
  });

  test("leaves nothing that a crash in the middle of it has left", async () => {
    const id = (await uploads('{"prompt":"a"}\n')).body.id as string;
    await app.call("DELETE", `/v1/datasets/${id}`);
    await sweep(app.ctx);
    for (const rest of ["-wal", "-shm"]) writeFileSync(join(app.dir, "datasets", `${id}.db${rest}`), "x");
    await sweep(app.ctx);
    expect(readdirSync(join(app.dir, "datasets"))).toEqual([]);
  });

  test("rows that are gone from the disk are missed, not taken for none", async () => {
    const { body } = await uploads('{"prompt":"a"}\n');
    rmSync(join(app.dir, "datasets", `${body.id}.db`));
    const missed = { status: 503, body: { error: { code: "storage_unavailable" } } };
    expect(await app.call("GET", `/v1/datasets/${body.id}/rows`)).toMatchObject(missed);
    expect(await app.call("GET", `/v1/datasets/${body.id}/rows/export`)).toMatchObject(missed);
    expect(await snapshot(body.id)).toMatchObject(missed);
    expect(await append(body.id, prompts("b"))).toMatchObject(missed);
    expect(files()).toEqual([]);
  });

  test("another workspace sees none of it", async () => {
    const id = await create();
    for (const [method, path] of [
      ["GET", ""],
      ["GET", "/rows"],
      ["GET", "/rows/export"],
      ["DELETE", ""],
    ])
      expect((await app.call(method!, `/v1/datasets/${id}${path}`, undefined, { key: app.keyB })).status).toBe(404);
  });
});

test("the loops cut what is due and sweep what is gone by themselves", async () => {
  await app.close();
  app = testApp({ dir: app.dir, loops: ["datasets.snapshots", "datasets.sweep"] });
  const id = await create({ auto_snapshot_rows: 2 });
  await append(id, prompts("a", "b"));
  await until("the snapshot", async () => (await get(id)).snapshot_count === 1);
  await app.call("DELETE", `/v1/datasets/${id}`);
  await until("the file to go", () => files().length === 0);
});

test("with offline = true the hub is not dialled for a dataset either", async () => {
  await app.close();
  app = testApp({ dir: app.dir, flags: { offline: true } });
  const source = { source_type: "hf", hub_dataset: "lab/rows" };
  const refused = await app.call("POST", "/v1/datasets/connect", { name: "c", ...source });
  expect(refused).toMatchObject({ status: 400, body: { error: { code: "source_unusable", param: "/source_type" } } });
  const seen = await app.call("POST", "/v1/datasets/connect/validate", source);
  expect(seen).toMatchObject({ status: 200, body: { valid: false, error: expect.stringContaining("offline = true") } });
});
