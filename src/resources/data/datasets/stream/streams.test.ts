import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { copyFileSync, existsSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { datasetCalls, NDJSON, prompts } from "../../../../../test/datasets_kit.ts";
import { type TestApp, testApp } from "../../../../../test/harness.ts";
import { failpoints } from "../../../../platform/failpoint.ts";

let app: TestApp;
beforeEach(() => {
  app = testApp();
});
afterEach(() => {
  delete failpoints.hit;
  return app.close().then(app.remove);
});

const { create, append, get, exported, typed } = datasetCalls(() => app);

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
      object: "dataset",
      source_type: "upload",
      format: "chat",
      head_row: 0,
      num_rows: 0,
      auto_snapshot_rows: 5,
      latest_snapshot_id: null,
      unsnapshotted_rows: null,
      snapshot_count: 0,
      source_uri: null,
      hub_dataset: null,
      metadata: { a: "b" },
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
      object: "dataset.append",
      dataset_id: id,
      first_row_id: 1,
      last_row_id: 2,
      appended: 2,
      superseded: 0,
      tombstoned: 0,
      head_row: 2,
      unsnapshotted_rows: 2,
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

  test("refuses a body that is packed, with what to send instead", async () => {
    const id = await create();
    const raw = Bun.gzipSync('{"prompt":"a"}\n');
    const headers = { ...NDJSON, "content-encoding": "gzip" };
    expect(await app.call("POST", `/v1/datasets/${id}/rows`, undefined, { raw, headers })).toMatchObject({
      status: 415,
      body: { error: { message: "Content-Encoding gzip is not supported: send the rows uncompressed" } },
    });
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
    expect(together[3]?.body.error.message).toContain("entry 5 is a tombstone");
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
    expect(await refusal({ _op: "tombstone", _row_id: 9 })).toContain("there is no row 9: the newest row is 5");
    expect(await refusal({ _op: "supersede", _row_id: 3, prompt: "x" })).toContain("row 3 was removed by entry 5");
    expect(await refusal({ _op: "supersede", _row_id: 5, prompt: "x" })).toContain("entry 5 is a tombstone");
    expect(await refusal({ _op: "supersede", prompt: "x" })).toContain("_row_id must name the row");
    expect(await refusal({ _op: "delete", _row_id: 1 })).toContain("_op must be one of");
    expect(await refusal({ _row_id: 1, prompt: "x" })).toContain("_row_id needs _op");
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

  test("is one of two that a key was used on at the same time: the other is refused", async () => {
    const ids = [await create(), await create()];
    const headers = { "idempotency-key": "k2" };
    const answers = await Promise.all(
      ids.map((id) => app.call("POST", `/v1/datasets/${id}/rows`, { rows: prompts("a") }, { headers })),
    );
    expect(answers.map(({ status }) => status)).toEqual([201, 409]);
    expect([(await get(ids[0]!)).head_row, (await get(ids[1]!)).head_row]).toEqual([1, 0]);
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

  test("F1 role typos: an appended row with an unknown role is 422 with its position", async () => {
    const id = await create({ format: "chat" });
    const talk = (role: string) => ({ messages: [{ role, content: "x" }] });
    const { status, body } = await append(id, [talk("user"), talk("asistant")]);
    expect({ status, param: body.error.param }).toEqual({ status: 422, param: "/rows/1/messages" });
    expect(body.error.message).toStartWith('rows.1: messages[0].role is "asistant"');
    expect(body.error.message).toEndWith("did you mean assistant?");
    const lines = [talk("user"), talk("assistent")].map((row) => JSON.stringify(row)).join("\n");
    const asLines = await app.call("POST", `/v1/datasets/${id}/rows`, undefined, { raw: lines, headers: NDJSON });
    expect(asLines.body.error.message).toStartWith('Line 2: messages[0].role is "assistent"');
    expect((await get(id)).head_row).toBe(0);
  });

  test("D13 deleted row file: an append is 503 and changes nothing, until the file is back", async () => {
    const id = await create();
    await append(id, prompts("a"));
    const path = join(app.dir, "datasets", `${id}.db`);
    renameSync(path, `${path}.aside`);
    const { status, body } = await append(id, prompts("lost"));
    expect({ status, code: body.error.code }).toEqual({ status: 503, code: "storage_unavailable" });
    expect(body.error.message).toStartWith(`The row file ${id}.db, or a part of it, is missing`);
    expect((await get(id)).head_row).toBe(1);
    renameSync(`${path}.aside`, path);
    expect((await append(id, prompts("b"))).status).toBe(201);
    await app.close();
    app = testApp({ dir: app.dir });
    expect(await exported(id)).toBe('{"prompt":"a"}\n{"prompt":"b"}\n');
  });

  test("D13 deleted log: an append writes to a new log, and the rows of the old one stay", async () => {
    const id = await create();
    await append(id, prompts("a"));
    const log = join(app.dir, "datasets", `${id}.db-wal`);
    rmSync(log);
    expect((await append(id, prompts("b"))).status).toBe(201);
    expect(existsSync(log)).toBe(true);
    await app.close();
    app = testApp({ dir: app.dir });
    expect(await exported(id)).toBe('{"prompt":"a"}\n{"prompt":"b"}\n');
  });

  test("D13 restored row file: a file with fewer rows than the dataset takes no append", async () => {
    const id = await create();
    const path = join(app.dir, "datasets", `${id}.db`);
    await append(id, prompts("a"));
    const { dir } = app;
    await app.close();
    copyFileSync(path, `${path}.old`);
    app = testApp({ dir });
    await append(id, prompts("b"));
    await app.close();
    renameSync(`${path}.old`, path);
    app = testApp({ dir });
    expect((await append(id, prompts("c"))).status).toBe(503);
  });

  test("D13 row file deleted during an append: the append is 503, because a restart would lose its rows", async () => {
    const id = await create();
    await append(id, prompts("a"));
    const path = join(app.dir, "datasets", `${id}.db`);
    failpoints.hit = (at) => {
      if (at === "rows.before_flush") rmSync(path, { force: true });
    };
    expect((await append(id, prompts("b"))).status).toBe(503);
    expect((await get(id)).head_row).toBe(1);
  });
});
