import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { tarGz } from "../../../../test/archives.ts";
import { datasetCalls, prompts } from "../../../../test/datasets_kit.ts";
import { startFakeHub } from "../../../../test/fake_hub.ts";
import { jobRow } from "../../../../test/fake_trainers.ts";
import { manyApps, type TestApp, tempDir, until } from "../../../../test/harness.ts";
import { insert } from "../../../../test/insert_row.ts";
import { makeModel } from "../../../../test/models.ts";
import { newId } from "../../../lib/ids.ts";
import { write } from "../../../platform/db/db.ts";
import { purge } from "../../../purge.ts";
import { pullAll } from "../../serving/models/hub/pull.ts";
import { trainingCheckpoints, trainingExports, trainingJobs } from "../../training/training_jobs/table.ts";
import { datasetSnapshots, datasets } from "../datasets/table.ts";
import { sweep } from "../volumes/sweep.ts";
import { usedBytes } from "./service.ts";
import { KINDS, type Kind } from "./table.ts";

const { open, closeAll } = manyApps();
const stops: (() => unknown)[] = [];
afterEach(async () => {
  await closeAll();
  for (const stop of stops.splice(0)) await stop();
});

const used = (app: TestApp, kind: Kind) => usedBytes(app.ctx.db, { workspaceId: app.workspaceA, kind });
const FULL = { status: 422, body: { error: { type: "validation_error", code: "quota_exceeded" } } };
const line = (size: number) => `{"prompt":"${"x".repeat(size - 14)}"}\n`; // without its end, size - 1 bytes

/** A body without a length, which ends when `end` resolves. */
const pieces = (text: string, end?: Promise<void>) =>
  new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (controller) => controller.enqueue(new TextEncoder().encode(text)),
    async pull(controller) {
      await end;
      controller.close();
    },
  });

const model = (() => {
  let bytes: Uint8Array<ArrayBuffer> | undefined;
  return () => {
    const dir = tempDir();
    bytes ??= new Uint8Array(readFileSync(makeModel(dir, { arch: "llama", type: "F16" })));
    rmSync(dir, { recursive: true });
    return bytes;
  };
})();

const artifact = (app: TestApp, content: string) => {
  const form = new FormData();
  form.set("file", new Blob([tarGz({ name: "main.py", content })]), "code.tar.gz");
  return app.call("POST", "/v1/code_artifacts", undefined, { raw: form });
};
const modelUpload = async (app: TestApp, name: string, file: object = {}) => {
  const { id } = (await app.call("POST", "/v1/models", { name })).body;
  const presigned = await app.call("POST", `/v1/models/${id}/presigned-upload`, {
    files: [{ path: "m.gguf", ...file }],
  });
  const send = (raw: Uint8Array<ArrayBuffer>) =>
    app.call("PUT", presigned.body.files[0].url.replace("http://localhost", ""), undefined, { key: null, raw });
  return { id, presigned, send, complete: () => app.call("POST", `/v1/models/${id}/complete`) };
};

/** The sums of the rows of the tables. */
function summed(app: TestApp): Record<Kind, number> {
  const sum = (sql: string) =>
    app.ctx.db.$client.query<{ n: number | null }, [string]>(`SELECT sum(${sql}`).get(app.workspaceA)?.n ?? 0;
  return {
    datasets:
      sum("bytes) AS n FROM datasets WHERE workspace_id = ?") +
      sum(`s.bytes) AS n FROM dataset_snapshots s JOIN datasets d ON d.id = s.dataset_id
           WHERE d.source_type <> 'upload' AND d.workspace_id = ?`),
    models: sum("size_bytes) AS n FROM models WHERE status <> 'deleted' AND workspace_id = ?"),
    code_artifacts: sum("size_bytes) AS n FROM code_artifacts WHERE workspace_id = ?"),
    checkpoints:
      sum("size_bytes) AS n FROM training_checkpoints WHERE deleted_at IS NULL AND workspace_id = ?") +
      sum("size_bytes) AS n FROM training_exports WHERE workspace_id = ?"),
    volumes: sum("total_bytes) AS n FROM volumes WHERE deleted_at IS NULL AND workspace_id = ?"),
    chats:
      sum(
        "octet_length(input) + octet_length(response) + coalesce(octet_length(task), 0)) AS n FROM responses WHERE workspace_id = ?",
      ) +
      sum(
        "256 + coalesce(octet_length(name), 0) + octet_length(metadata)) AS n FROM client_conversations WHERE workspace_id = ?",
      ) +
      sum("128 + octet_length(item)) AS n FROM client_items WHERE workspace_id = ?") +
      sum(
        "256 + octet_length(metadata) + octet_length(messages) + octet_length(completion)) AS n FROM client_completions WHERE workspace_id = ?",
      ),
    prefixes: sum("bytes) AS n FROM prefix_stores WHERE workspace_id = ?"),
    files:
      sum("size_bytes) AS n FROM client_files WHERE workspace_id = ?") +
      sum(`p.size_bytes) AS n FROM upload_parts p JOIN uploads u ON u.id = p.upload_id
           WHERE u.purpose = 'file' AND u.workspace_id = ?`) +
      sum("128 + octet_length(text) + octet_length(vector)) AS n FROM client_vector_chunks WHERE workspace_id = ?"),
  };
}

test("the sums follow what is kept, whichever way it comes and goes", async () => {
  const app = open();
  const { create, append, uploads, snapshot } = datasetCalls(() => app);
  const { db, clock } = app.ctx;
  const same = (...above: Kind[]) => {
    const sums = Object.fromEntries(KINDS.map((kind) => [kind, used(app, kind)]));
    expect(sums).toEqual(summed(app));
    for (const kind of above) expect(sums[kind]).toBeGreaterThan(0);
  };
  same();
  const stream = await create();
  await append(stream, prompts("a", "b"));
  await snapshot(stream);
  const uploaded = await uploads('{"prompt":"x"}\n');
  same("datasets");
  const connected = { ...db.select().from(datasets).all()[0]!, id: newId("ds", 1), contentSha256: null, bytes: 0 };
  const counted = { headRow: 1, rowCount: 1, bytes: 77, sha256: "s", jobId: null, note: null, createdAt: 1 };
  write(db, (tx) => {
    tx.insert(datasets)
      .values({ ...connected, sourceType: "s3" })
      .run();
    tx.insert(datasetSnapshots)
      .values({ datasetId: connected.id, number: 1, trigger: "manual", ...counted })
      .run();
  });
  same("datasets");
  await app.call("POST", "/v1/volumes", { name: "lab" });
  for (const text of ["1234", "12", "123456"])
    await app.call("PUT", "/v1/volumes/lab/files/a", undefined, { raw: text });
  const code = await artifact(app, "print(1)");
  const form = new FormData();
  form.set("purpose", "batch");
  form.set("file", new File(["{}"], "in.jsonl"));
  await app.call("POST", "/v1/files", undefined, { raw: form });
  const parts = { filename: "in.jsonl", purpose: "batch", bytes: 4, mime_type: "text/plain" };
  const { id: upload } = (await app.call("POST", "/v1/uploads", parts)).body;
  const data = new FormData();
  data.set("data", new File(["1234"], "blob"));
  const { body: part } = await app.call("POST", `/v1/uploads/${upload}/parts`, undefined, { raw: data });
  expect(used(app, "files")).toBe(6);
  same("files");
  expect((await app.call("POST", `/v1/uploads/${upload}/complete`, { part_ids: [part.id] })).status).toBe(200);
  expect(used(app, "files")).toBe(6);
  const items = [{ role: "user", content: "hi" }];
  const { id: talk } = (await app.call("POST", "/v1/conversations", { items, name: "talk" })).body;
  await app.call("POST", `/v1/conversations/${talk}`, { name: null, metadata: { long: "x".repeat(100) } });
  const texts = { input: "[]", response: "{}", task: "{}" };
  insert(app, "responses", newId("resp"), 1, { status: "queued", ...texts });
  insert(app, "responses", newId("resp"), 1, { status: "completed", ...texts });
  insert(app, "client_completions", "chatcmpl-a", 1, { metadata: "{}", messages: "[]", completion: "{}" });
  db.$client.run("PRAGMA foreign_keys = ON"); // insert() ends them
  db.$client.run("UPDATE responses SET task = NULL, response = '{\"id\":1}'");
  db.$client.run("DELETE FROM responses WHERE status = 'completed'");
  same("chats");
  const store = db.$client.query("INSERT INTO prefix_stores VALUES (?, 'sealed', 70, 1)");
  store.run(app.workspaceA);
  db.$client.run("UPDATE prefix_stores SET bytes = 50");
  same("prefixes");
  const sent = await modelUpload(app, "m");
  await sent.send(model());
  same("datasets", "volumes", "code_artifacts", "models", "files");
  expect((await sent.complete()).body.status).toBe("ready");
  const job = jobRow(clock.now(), { workspaceId: app.workspaceA, datasetId: null, status: "completed" });
  const own = { jobId: job.id, workspaceId: app.workspaceA, createdAt: 1 };
  const checkpoint = { ...own, path: "p", metrics: {}, value: null, deletedAt: null };
  write(db, (tx) => {
    tx.insert(trainingJobs)
      .values({ ...job, completedAt: 1, logKey: "none" })
      .run();
    for (const step of [1, 2])
      tx.insert(trainingCheckpoints)
        .values({ ...checkpoint, id: `c${step}`, step, sizeBytes: 100 * step })
        .onConflictDoNothing()
        .run();
    const file = { variant: "gguf" as const, quantization: "q", status: "ready" as const, sizeBytes: 9 };
    const blank = { storageKey: null, fileName: null, sha256: null, modelId: null, error: null, updatedAt: 1 };
    tx.insert(trainingExports)
      .values({ ...own, ...file, ...blank, id: "e", checkpointId: "c1" })
      .run();
    tx.update(trainingCheckpoints).set({ deletedAt: 5 }).run();
  });
  expect(used(app, "checkpoints")).toBe(9);
  write(db, (tx) => tx.update(trainingCheckpoints).set({ deletedAt: null }).run());
  expect(used(app, "checkpoints")).toBe(309);
  same(...KINDS);
  expect((await app.call("DELETE", `/v1/training_jobs/${job.id}`)).status).toBe(200); // its checkpoints go by cascade
  for (const path of [`datasets/${uploaded.body.id}`, `code_artifacts/${code.body.id}`, `models/${sent.id}`])
    expect((await app.call("DELETE", `/v1/${path}`)).status).toBe(200);
  same("datasets", "volumes");
  expect([used(app, "checkpoints"), used(app, "code_artifacts"), used(app, "models")]).toEqual([0, 0, 0]);
  await app.call("DELETE", `/v1/workspaces/${app.workspaceA}`, undefined, { key: app.adminKey });
  await purge(app.ctx);
  expect(KINDS.map((kind) => used(app, kind))).toEqual(KINDS.map(() => 0));
});

describe("17.6: beyond the quota", () => {
  test("a dataset is refused while it comes, an append alone, and both leave nothing", async () => {
    const app = open({ flags: { "quotas.dataset_bytes": 200 } });
    const { create, append, uploads, files } = datasetCalls(() => app);
    mkdirSync(join(app.dir, "datasets"), { recursive: true });
    const refused = await uploads(line(201));
    expect(refused).toMatchObject(FULL);
    expect(refused.body.error.message).toContain("quotas.dataset_bytes");
    expect(files()).toEqual([]);
    expect((await uploads(line(101))).status).toBe(201);
    const id = await create();
    const [fits, beyond] = await Promise.all([append(id, prompts("a")), append(id, prompts("b".repeat(100)))]);
    expect([fits.status, beyond]).toEqual([201, expect.objectContaining({ status: 422 })]);
    expect(beyond).toMatchObject({ ...FULL, body: { error: { param: "/rows" } } });
    expect(summed(app).datasets).toBe(used(app, "datasets"));
    expect(used(app, "datasets")).toBeLessThanOrEqual(200);
    const other = await app.call("POST", "/v1/datasets", { name: "s", format: "prompt" }, { key: app.keyB });
    const rows = { rows: prompts("b".repeat(100)) };
    const theirs = await app.call("POST", `/v1/datasets/${other.body.id}/rows`, rows, { key: app.keyB });
    expect(theirs.status).toBe(201);
  });

  test("two uploads at the same time do not both take the last byte", async () => {
    const app = open({ flags: { "quotas.dataset_bytes": 150 } });
    const { uploads } = datasetCalls(() => app);
    const answers = await Promise.all([uploads(line(100)), uploads(line(101)), uploads(line(102))]);
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 422, 422]);
  });

  test("S6: uploads of unknown size at the same time are counted together while they are written", async () => {
    const app = open({ flags: { "volumes.quota_bytes": 150 } });
    await app.call("POST", "/v1/volumes", { name: "lab" });
    const put = (path: string, raw: BodyInit) => app.call("PUT", `/v1/volumes/lab/files/${path}`, undefined, { raw });
    const first = Promise.withResolvers<void>();
    const slow = put("slow", pieces(line(80), first.promise));
    const temp = join(app.dir, "storage/tmp");
    await until("the first bytes", () => readdirSync(temp).some((name) => statSync(join(temp, name)).size === 80));
    expect(await put("beyond", pieces(line(90)))).toMatchObject(FULL);
    expect((await put("fits", pieces(line(60)))).status).toBe(201);
    first.resolve();
    expect((await slow).status).toBe(201);
    expect(used(app, "volumes")).toBe(140);
  });

  test("a connected source is not read", async () => {
    const app = open({ flags: { "quotas.dataset_bytes": 1 } });
    const { create, uploads } = datasetCalls(() => app);
    const id = await create();
    const source = { source_type: "s3", source_uri: "s3://bucket/rows" } as const;
    write(app.ctx.db, (tx) => tx.update(datasets).set({ sourceType: "s3", source, bytes: 1 }).run());
    expect(await app.call("POST", `/v1/datasets/${id}/resolutions`, { credentials: {} })).toMatchObject(FULL);
    expect(await uploads(line(20))).toMatchObject(FULL);
  });

  test("a code artifact is refused and leaves nothing", async () => {
    const app = open({ flags: { "quotas.code_artifact_bytes": 150 } });
    const noise = Buffer.from(crypto.getRandomValues(new Uint8Array(300))).toString("base64");
    expect(await artifact(app, noise)).toMatchObject(FULL);
    expect(readdirSync(join(app.dir, "tmp"))).toEqual([]);
    expect((await app.ctx.storage.list("")).items).toEqual([]);
    expect((await artifact(app, "a")).status).toBe(201);
    expect(await artifact(app, "bb")).toMatchObject(FULL);
    await sweep(app.ctx);
    expect((await app.ctx.storage.list("")).items).toHaveLength(1);
    expect((await artifact(app, "a")).status).toBe(200); // the same content takes no room
  });

  test("a model is refused by its announced size, or cut off; what is not used is given back", async () => {
    const size = model().length;
    const app = open({ flags: { "quotas.model_bytes": size + 10 } });
    expect((await modelUpload(app, "large", { size_bytes: size + 11 })).presigned).toMatchObject(FULL);
    const broken = await modelUpload(app, "broken");
    expect((await broken.send(new Uint8Array(size))).status).toBe(200);
    expect(used(app, "models")).toBe(size);
    const crowded = await modelUpload(app, "crowded");
    expect((await crowded.send(model())).status).toBe(413);
    expect((await broken.complete()).status).toBe(422); // it is no model
    expect(used(app, "models")).toBe(0);
    const good = await modelUpload(app, "good");
    await good.send(model());
    expect([(await good.complete()).body.status, used(app, "models")]).toEqual(["ready", size]);
    expect((await modelUpload(app, "next", { size_bytes: 11 })).presigned).toMatchObject(FULL);
  });

  test("files that replace each other before the model is complete all count", async () => {
    const size = model().length;
    const app = open({ flags: { "quotas.model_bytes": 2 * size } });
    const first = await modelUpload(app, "m");
    await first.send(model());
    const again = { files: [{ path: "m.gguf", size_bytes: size }] };
    const presigned = await app.call("POST", `/v1/models/${first.id}/presigned-upload`, again);
    const url = presigned.body.files[0].url.replace("http://localhost", "");
    expect((await app.call("PUT", url, undefined, { key: null, raw: model() })).status).toBe(200);
    expect(used(app, "models")).toBe(2 * size);
    expect(await app.call("POST", `/v1/models/${first.id}/presigned-upload`, again)).toMatchObject(FULL);
    await first.complete();
    expect(used(app, "models")).toBe(size);
  });

  test("a model of a hub fails before its first byte, and says why", async () => {
    const hub = startFakeHub({ "acme/tiny": { files: { "tiny-Q4_K_M.gguf": model() } } });
    stops.push(hub.stop);
    const near = { "hub.endpoint": hub.url, "network.allow": ["127.0.0.1", "localhost"] };
    const app = open({ flags: { ...near, "quotas.model_bytes": 1000 } });
    const { body } = await app.call("POST", "/v1/models/pull", { name: "acme/tiny" });
    await pullAll(app.ctx, new AbortController().signal);
    const failed = (await app.call("GET", `/v1/models/${body.id}`)).body;
    expect([failed.status, failed.error]).toEqual(["failed", expect.stringContaining("quotas.model_bytes")]);
    expect(used(app, "models")).toBe(0);
    const dir = join(app.dir, "models/.downloads");
    expect(existsSync(dir) ? readdirSync(dir) : []).toEqual([]);
  });
});

test("17.6: nothing more is stored while the disk has less free space than must stay free", async () => {
  const app = open({ flags: { "storage.min_free_bytes": Number.MAX_SAFE_INTEGER } });
  const { create, append, uploads } = datasetCalls(() => app);
  await app.call("POST", "/v1/volumes", { name: "lab" });
  const { presigned } = await modelUpload(app, "m");
  const answers = [
    await uploads(line(50)),
    await append(await create(), prompts("a")),
    await artifact(app, "a"),
    await app.call("PUT", "/v1/volumes/lab/files/a", undefined, { raw: "1" }),
    presigned,
    await app.call("POST", "/v1/models/pull", { name: "acme/tiny" }),
    await app.call("POST", "/v1/training_jobs", { method: "sft" }),
  ];
  for (const { status, body } of answers) {
    expect([status, body.error.code]).toEqual([503, "storage_unavailable"]);
    expect(body.error.message).toContain("storage.min_free_bytes");
  }
  expect(KINDS.map((kind) => used(app, kind))).toEqual(KINDS.map(() => 0));
  expect((await app.call("GET", "/v1/datasets")).status).toBe(200);
  expect((await app.call("PUT", "/v1/secrets/A", { value: "b" })).status).toBeLessThan(300); // small things go on
});
