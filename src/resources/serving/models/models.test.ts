import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { type TestApp, tempDir, testApp } from "../../../../test/harness.ts";
import { writeFolder } from "../../../../test/hugging_face.ts";
import { makeModel } from "../../../../test/models.ts";
import { splitGguf } from "../../../../test/split_gguf.ts";
import { write } from "../../../platform/db/db.ts";
import { BUILTIN_NAME } from "./builtin.ts";
import { scan } from "./files/folder.ts";
import { hashNew } from "./files/hash.ts";
import { importFile, openSource, place, registerChecked } from "./files/import.ts";
import * as models from "./service.ts";

let app: TestApp;
let source: string;
const folder = (...parts: string[]) => join(app.dir, "models", ...parts);
const named = (name: string) => models.find(app.ctx, app.workspaceA, name);
/** Written long ago: a fresh file waits until it has settled. */
function put(...parts: string[]) {
  const path = folder(...parts);
  mkdirSync(join(path, ".."), { recursive: true });
  copyFileSync(source, path);
  utimesSync(path, 1_700_000_000, 1_700_000_000);
  return path;
}

beforeAll(async () => {
  app = testApp();
  source = makeModel(tempDir(), { arch: "llama", type: "F16" });
  await scan(app.ctx);
});
afterAll(() => app.close().then(app.remove));

describe("the built-in model", () => {
  test("F2b can be deployed and trained before the first scan, and waits for its file", async () => {
    const fresh = testApp({ parts: ["models"] });
    const { status, body } = await fresh.call("POST", "/v1/deployments", { model: BUILTIN_NAME, name: "first" });
    expect([status, body.status, body.source]).toEqual([201, "queued", "hub"]);
    const before = models.mustGet(fresh.ctx, fresh.workspaceA, BUILTIN_NAME);
    expect(models.usability(fresh.ctx, before)).toMatchObject({ waits: "recheck" });
    await scan(fresh.ctx);
    const { shape, ...after } = models.mustGet(fresh.ctx, fresh.workspaceA, BUILTIN_NAME);
    expect(after).toMatchObject({ id: before.id, status: "ready", path: before.path, sizeBytes: before.sizeBytes });
    expect(shape).toEqual(before.shape);
    await fresh.close();
    fresh.remove();
  });

  test("is ready after the first scan, for every workspace, under its name", async () => {
    const { status, body } = await app.call("GET", "/v1/models/verk-tiny");
    expect(status).toBe(200);
    expect(body).toMatchObject({ object: "model", owned_by: "verk", source: "builtin", status: "ready" });
    expect(body.sha256).toMatch(/^[0-9a-f]{64}$/);
    expect((await app.call("GET", `/v1/models/${body.id}`, undefined, { key: app.keyB })).status).toBe(200);
    expect(await Bun.file(models.pathOf(app.ctx, models.mustGet(app.ctx, app.workspaceA, body.id))).exists()).toBe(
      true,
    );
  });

  test("comes back when its copy was removed", async () => {
    const row = models.mustGet(app.ctx, app.workspaceA, "verk-tiny");
    rmSync(models.pathOf(app.ctx, row));
    await scan(app.ctx);
    expect(await Bun.file(models.pathOf(app.ctx, row)).exists()).toBe(true);
    expect(named("verk-tiny")).toMatchObject({ id: row.id, status: "ready" });
  });

  test("keeps its name: a file of that name in the folder is left alone", async () => {
    put("verk-tiny.gguf");
    await scan(app.ctx);
    expect(named("verk-tiny")).toMatchObject({ source: "builtin", status: "ready" });
    await expect(importFile(app.ctx, source, "verk-tiny")).rejects.toThrow("is the built-in model");
  });

  test("cannot be deleted", async () => {
    const answer = await app.call("DELETE", "/v1/models/verk-tiny");
    expect(answer).toMatchObject({ status: 400, body: { error: { code: "unsupported_state" } } });
  });
});

describe("the models folder", () => {
  test("offers a file under its path without the ending, and hashes it later", async () => {
    put("team", "small.gguf");
    await scan(app.ctx);
    expect(named("team/small")).toMatchObject({ status: "ready", architecture: "llama", sha256: null });
    await hashNew(app.ctx);
    const { body } = await app.call("GET", `/v1/models/${encodeURIComponent("team/small")}`);
    expect(body).toMatchObject({ owned_by: "local", source: "folder", type: "model", quantization: "F16" });
    expect(body.sha256).toBe(new Bun.CryptoHasher("sha256").update(await Bun.file(source).bytes()).digest("hex"));
  });

  test("follows a link to a file elsewhere", async () => {
    symlinkSync(source, folder("linked.gguf"));
    utimesSync(source, 1_700_000_000, 1_700_000_000);
    await scan(app.ctx);
    expect(named("linked")?.status).toBe("ready");
  });

  test("refuses a file that is cut off, and takes it once it is whole", async () => {
    const path = put("cut.gguf");
    truncateSync(path, 200_000);
    utimesSync(path, 1_700_000_000, 1_700_000_000);
    await scan(app.ctx);
    const row = named("cut");
    expect(row).toMatchObject({ status: "failed" });
    expect(row?.error).toContain("truncated");
    put("cut.gguf");
    await scan(app.ctx);
    expect(named("cut")).toMatchObject({ id: row?.id, status: "ready", error: null });
  });

  test("a file that vanished is missing, and ready again when it is back", async () => {
    const path = put("wanders.gguf");
    await scan(app.ctx);
    const { id } = models.mustGet(app.ctx, app.workspaceA, "wanders");
    renameSync(path, `${path}.away`);
    await scan(app.ctx);
    expect(named("wanders")).toMatchObject({ id, status: "missing" });
    expect(() => models.pathOf(app.ctx, models.mustGet(app.ctx, app.workspaceA, id))).toThrow("missing");
    renameSync(`${path}.away`, path);
    await scan(app.ctx);
    expect(named("wanders")).toMatchObject({ id, status: "ready" });
  });

  test("leaves half-copied files, hidden files and what is no file alone", async () => {
    put("copying.gguf.part");
    put(".hidden.gguf");
    put("a", "b", "deep.gguf");
    mkdirSync(folder("directory.gguf"));
    Bun.spawnSync(["mkfifo", folder("pipe.gguf")]);
    await scan(app.ctx);
    const { body } = await app.call("GET", "/v1/models?registry=true&limit=100");
    const names = body.data.map((model: { name: string }) => model.name);
    expect(names.filter((name: string) => /copying|hidden|deep|directory|pipe/.test(name))).toEqual([]);
  });
});

test("F8 Hugging Face folder: a scan converts it to a file beside it, and says once why it cannot", async () => {
  writeFolder(folder("hf-good"), { dtype: "BF16", shards: 2 });
  writeFolder(folder("hf-bad"), { files: { "tokenizer.json": null } });
  mkdirSync(folder("hf-empty"));
  writeFileSync(join(folder("hf-empty"), "config.json"), "{}");
  const warnings: string[] = [];
  const log = {
    ...app.ctx.log,
    warn: (message: string, more?: object) => warnings.push(`${message} ${JSON.stringify(more)}`),
  };
  for (let i = 0; i < 2; i++) await scan({ ...app.ctx, log });
  const model = async (name: string) => (await app.call("GET", `/v1/models/${name}`)).body;
  expect(await model("hf-good")).toMatchObject({ status: "ready", architecture: "llama", quantization: "BF16" });
  expect(lstatSync(folder("hf-good.gguf")).size).toBeGreaterThan(100_000);
  expect(await model("hf-bad")).toMatchObject({ status: "failed", error: expect.stringContaining("tokenizer.json") });
  expect(warnings).toEqual([
    expect.stringContaining("models/hf-empty"),
    expect.stringContaining("neither tokenizer.json nor tokenizer.model"),
  ]);
  expect(readdirSync(folder(".converting"))).toEqual([]);
});

test("the parts of a split file are joined by a scan; a missing one is named, and the model arrives with it", async () => {
  mkdirSync(folder("split"), { recursive: true });
  const names = await splitGguf(source, { dir: folder("split"), stem: "m", count: 3 });
  const [, second = ""] = names;
  renameSync(folder("split", second), folder("split", "away"));
  await scan(app.ctx);
  expect(named("split/m")).toMatchObject({ status: "failed", error: expect.stringContaining(`${second} is missing`) });
  renameSync(folder("split", "away"), folder("split", second));
  await scan(app.ctx);
  expect(named("split/m")).toMatchObject({ status: "ready", architecture: "llama", path: "models/split/m.gguf" });
  expect(named("split/m-00001-of-00003")).toBeUndefined();
  await scan(app.ctx);
  expect(named("split/m")?.status).toBe("ready");
});

test("a sparse file that claims millions of strings is refused soon, in little memory", async () => {
  const path = folder("monster.gguf");
  const head = Buffer.alloc(24 + 8 + 1 + 4 + 4 + 8);
  head.write("GGUF");
  head.writeUInt32LE(3, 4);
  head.writeBigUInt64LE(1n, 16); // one key, no tensors
  head.writeBigUInt64LE(1n, 24);
  head.write("k", 32);
  head.writeUInt32LE(9, 33); // an array
  head.writeUInt32LE(8, 37); // of strings
  head.writeBigUInt64LE(8_000_000n, 41);
  writeFileSync(path, head);
  truncateSync(path, 2 ** 40);
  utimesSync(path, 1_700_000_000, 1_700_000_000);
  await scan(app.ctx);
  expect(named("monster")).toMatchObject({ status: "failed", error: expect.stringContaining("general.architecture") });
  rmSync(path);
}, 120_000);

describe("an import", () => {
  test("puts a copy into the folder, ready at once, with its hash", async () => {
    const row = await importFile(app.ctx, source, "team/imported");
    expect(row).toMatchObject({ name: "team/imported", status: "ready", workspaceId: null, source: "folder" });
    expect(await Bun.file(models.pathOf(app.ctx, row)).bytes()).toEqual(await Bun.file(source).bytes());
    expect(await Bun.file(source).exists()).toBe(true);
    await scan(app.ctx);
    expect(named("team/imported")).toMatchObject({ id: row.id, status: "ready", updatedAt: row.updatedAt });
    expect(readdirSync(folder()).filter((name) => name.startsWith(".verk-tmp"))).toEqual([]);
  });

  test("does not take a name that is taken, nor one that leaves the folder", async () => {
    await importFile(app.ctx, source, "once");
    await expect(importFile(app.ctx, source, "once")).rejects.toThrow("A model named once exists");
    for (const name of ["../x", "/x", "hub/x", "a/b/c", ".hidden", ""])
      await expect(importFile(app.ctx, source, name)).rejects.toThrow("cannot be a model's name");
  });

  test("refuses what is no model before it copies anything", async () => {
    const path = join(app.dir, "notes.gguf");
    await Bun.write(path, "these are notes");
    await expect(importFile(app.ctx, path)).rejects.toThrow("not a GGUF file");
    await expect(importFile(app.ctx, join(app.dir, "absent.gguf"))).rejects.toThrow("there is no such file");
    await expect(importFile(app.ctx, app.dir)).rejects.toThrow(
      "is a folder without a model: import a GGUF file, or a Hugging Face folder",
    );
    expect(existsSync(folder("notes.gguf"))).toBe(false);
  });

  test("a link that is to be moved gives its file's content, not itself", async () => {
    const dir = tempDir();
    copyFileSync(source, join(dir, "real.gguf"));
    symlinkSync("real.gguf", join(dir, "link.gguf"));
    const opened = await openSource(join(dir, "link.gguf"));
    const imported = await place(app.dir, opened, { name: "by-link", move: true });
    await opened.handle.close();
    expect(imported.sizeBytes).toBe(Bun.file(source).size);
    expect(lstatSync(folder("by-link.gguf")).isFile()).toBe(true);
    expect(readdirSync(dir)).toEqual(["real.gguf"]);
    registerChecked(app.ctx, imported, opened.shape);
    rmSync(dir, { recursive: true });
  });

  test("moves the file where it may, and replaces a model where it is told to", async () => {
    const given = join(app.dir, "given.gguf");
    copyFileSync(source, given);
    const { id } = await importFile(app.ctx, source, "replaced");
    const opened = await openSource(given);
    const imported = await place(app.dir, opened, { name: "replaced", move: true, replace: true });
    await opened.handle.close();
    expect(existsSync(given)).toBe(false);
    expect(registerChecked(app.ctx, imported, opened.shape)).toMatchObject({ id, status: "ready" });
  });
});

test("a name is found for the caller's own models first, and never for another workspace's", () => {
  const { ctx, workspaceA, workspaceB } = app;
  const mine = write(ctx.db, (tx) =>
    models.add(tx, { workspaceId: workspaceA, name: "verk-tiny", source: "upload" }, 1),
  );
  expect(models.find(ctx, workspaceA, "verk-tiny")?.id).toBe(mine.id);
  expect(models.find(ctx, workspaceB, "verk-tiny")?.source).toBe("builtin");
  expect(models.find(ctx, workspaceB, mine.id)).toBeUndefined();
});
