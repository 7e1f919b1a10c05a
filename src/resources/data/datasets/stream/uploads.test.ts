import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { datasetCalls, prompts } from "../../../../../test/datasets_kit.ts";
import { type TestApp, testApp, until } from "../../../../../test/harness.ts";
import { sweep } from "./sweep.ts";

let app: TestApp;
beforeEach(() => {
  app = testApp();
});
afterEach(() => app.close().then(app.remove));

const { create, append, get, snapshot, exported, uploads, files } = datasetCalls(() => app);

describe("an upload", () => {
  test("is checked, counted and its format locked", async () => {
    const { status, body } = await uploads('{"prompt":"a","answer":1}\n{"prompt":"b"}\n');
    expect(status).toBe(201);
    expect(body).toMatchObject({ source_type: "upload", num_rows: 2, head_row: 2, format: "prompt", name: "up" });
    expect((await append(body.id, prompts("c"))).body).toMatchObject({ first_row_id: 3 });
    expect(await exported(body.id)).toBe('{"prompt":"a","answer":1}\n{"prompt":"b"}\n{"prompt":"c"}\n');
  });

  test("a dry run says what would be stored, and stores nothing", async () => {
    const form = new FormData();
    for (const [name, value] of Object.entries({ name: "later", map: "question=prompt", dry_run: "true" }))
      form.append(name, value);
    form.append("file", new File(["question,note\nWhy?,a\nHow?,b\n"], "faq.csv"));
    const { status, body } = await app.call("POST", "/v1/datasets", undefined, { raw: form });
    expect([status, body]).toMatchObject([
      200,
      {
        object: "dataset.file_preview",
        format: "prompt",
        detected: { file: "csv", shape: "prompt", rows: 2 },
        rows: [
          { prompt: "Why?", note: "a" },
          { prompt: "How?", note: "b" },
        ],
      },
    ]);
    const lines = new FormData();
    for (const [name, value] of Object.entries({ name: "later", dry_run: "true" })) lines.append(name, value);
    lines.append("file", new File(['{"prompt":"a"}\n{"promt":"b"}\n'], "rows.jsonl"));
    const bad = await app.call("POST", "/v1/datasets", undefined, { raw: lines });
    expect([bad.status, bad.body.error.message]).toEqual([422, expect.stringContaining("Line 2")]);
    expect((await app.call("GET", "/v1/datasets")).body.data).toEqual([]);
    expect(files()).toEqual([]);
  });

  test("P9 content hash: the same content is the same dataset, in one workspace", async () => {
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

  test("P9 content hash: a dataset whose rows changed is not returned for its old file", async () => {
    const changes: object[][] = [
      prompts("more"),
      [{ _op: "supersede", _row_id: 1, prompt: "other" }],
      [{ _op: "tombstone", _row_id: 1 }],
    ];
    for (const [i, change] of changes.entries()) {
      const text = `{"prompt":"file ${i}"}\n`;
      const { body: first } = await uploads(text);
      await snapshot(first.id);
      expect((await uploads(text)).status).toBe(200); // a snapshot changes no content
      await append(first.id, change);
      const again = await uploads(text);
      expect(again).toMatchObject({ status: 201, body: { num_rows: 1, head_row: 1 } });
      expect(again.body.id).not.toBe(first.id);
      expect(await exported(again.body.id)).toBe(text);
      expect((await uploads(text)).body.id).toBe(again.body.id);
    }
  });

  test("P9 content hash: an append between the check and the commit makes a new dataset with its rows", async () => {
    const text = '{"prompt":"raced"}\n'.repeat(2000);
    const { body: first } = await uploads(text);
    const answers = await Promise.all([uploads(text), append(first.id, prompts("more")), uploads(text), uploads(text)]);
    const made = answers.filter(({ status, body }) => status === 201 && body.object === "dataset");
    expect(made.length).toBeLessThanOrEqual(1);
    const { body: last } = await uploads(text);
    expect(last.id).not.toBe(first.id);
    expect(await exported(last.id)).toBe(text);
    expect(files().filter((name) => name.endsWith(".db"))).toHaveLength(2);
  });

  test("P9 content hash: a name that was ignored is said in the header warning", async () => {
    const text = '{"prompt":"named"}\n';
    const { body: first } = await uploads(text, "one");
    const same = await uploads(text, "one");
    expect(same.headers.get("warning")).toBeNull();
    const other = await uploads(text, "zwei 😀");
    expect(other).toMatchObject({ status: 200, body: { id: first.id, name: "one" } });
    expect(other.headers.get("warning")).toBe(
      `299 verk "ignored: name, because dataset ${first.id} already has this content and keeps its name"`,
    );
  });

  test("P2 snapshot fields: only get-dataset fills them", async () => {
    const text = '{"prompt":"a"}\n';
    const { body: made } = await uploads(text);
    await snapshot(made.id);
    const list = (await app.call("GET", "/v1/datasets")).body.data[0];
    const patched = (await app.call("PATCH", `/v1/datasets/${made.id}`, { name: "up" })).body;
    const again = (await uploads(text)).body;
    for (const each of [made, list, patched, again])
      expect(each).toMatchObject({ latest_snapshot_id: null, unsnapshotted_rows: null });
    expect({ ...patched, updated_at: list.updated_at }).toEqual(list);
    expect(await get(made.id)).toMatchObject({ latest_snapshot_id: "@snap-1", unsnapshotted_rows: 0 });
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
