// tier: all (whole paths on the executable)
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { sha256File } from "../../src/platform/files.ts";
import { startBinary } from "../binary.ts";
import { makeKey, runVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { writeFolder } from "../hugging_face.ts";
import { makeAdapter, makeModel } from "../models.ts";
import { splitGguf } from "../split_gguf.ts";

let dir: string;
let source: string;

beforeAll(() => {
  dir = join(tempDir(), "data");
  mkdirSync(dir);
  source = makeModel(tempDir(), { arch: "qwen2", type: "Q8_0" });
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const verk = (...args: string[]) => runVerk(["models", ...args, "--data", dir], { cwd: dir });

test("import works without a server, and the server knows the model when it starts", async () => {
  const imported = await verk("import", source, "--name", "team/small", "--json");
  expect(imported.err).not.toContain("verk:");
  expect(imported.code).toBe(0);
  expect(JSON.parse(imported.out)).toMatchObject({ name: "team/small", status: "ready", architecture: "qwen2" });
  const server = await startBinary({ dir });
  try {
    await until("the built-in model", async () => (await verk("list")).out.includes("verk-tiny"));
    const listed = await verk("list", "--json");
    const names = JSON.parse(listed.out).data.map((model: { name: string }) => model.name);
    expect(names.sort()).toEqual(["team/small", "verk-tiny"]);
  } finally {
    await server.kill("SIGTERM");
  }
}, 60_000);

test("import works beside a running server, and says what is wrong with a file", async () => {
  const server = await startBinary({ dir });
  try {
    expect(await verk("import", source, "--name", "beside")).toMatchObject({ code: 0, out: "beside\n" });
    const again = await verk("import", source, "--name", "beside");
    expect(again).toMatchObject({ code: 1, out: "" });
    expect(again.err).toContain("A model named beside exists");
    const notes = join(dir, "notes.gguf");
    await Bun.write(notes, "GGUF and then nothing of the kind");
    const refused = await verk("import", notes);
    expect(refused).toMatchObject({ code: 1, out: "" });
    expect(refused.err).toMatch(/notes\.gguf: .*version/);
  } finally {
    await server.kill("SIGTERM");
  }
}, 60_000);

test("import joins a split file, and quantizes a folder in the confined process", async () => {
  const parts = tempDir();
  const [, second = ""] = await splitGguf(source, { dir: parts, stem: "whole", count: 2 });
  expect(await verk("import", join(parts, second))).toMatchObject({ code: 0, out: "whole\n" });
  expect(await verk("import", parts, "--quantize", "Q8_0", "--name", "x")).toMatchObject({
    code: 2,
    err: expect.stringContaining("a GGUF file keeps its type"),
  });
  rmSync(join(parts, second));
  const missing = await verk("import", parts, "--name", "half");
  expect(missing).toMatchObject({ code: 1, err: expect.stringContaining(`${second} is missing`) });
  const folder = join(tempDir(), "hf");
  writeFolder(folder, { architecture: "qwen3", dtype: "BF16" });
  const imported = await verk("import", folder, "--quantize", "q4_k_m", "--json");
  expect(imported.err).not.toContain("verk:");
  expect(JSON.parse(imported.out)).toMatchObject({ name: "hf", status: "ready", quantization: "Q4_K_M" });
}, 60_000);

test("deploy --base sets the base of an adapter that several models fit", async () => {
  const options = { arch: "llama", type: "F16" } as const;
  for (const name of ["one", "two"]) await verk("import", makeModel(tempDir(), options), "--name", name);
  const imported = await verk("import", makeAdapter(tempDir(), options), "--name", "fine");
  expect(imported.err).toContain("several models fit it");
  const server = await startBinary({ dir });
  try {
    const deploy = (...more: string[]) =>
      runVerk(["deploy", "fine", "--no-wait", "--data", dir, ...more], { cwd: dir });
    expect(await deploy()).toMatchObject({ code: 1, err: expect.stringContaining("fit it (one, two)") });
    expect(await deploy("--base", "none")).toMatchObject({
      code: 1,
      err: expect.stringContaining("there is no model"),
    });
    expect(await deploy("--base", "two")).toMatchObject({ code: 0, out: expect.stringMatching(/^dep_/) });
    expect((await verk("show", "fine")).out).toMatch(/^base model +two$/m);
  } finally {
    await server.kill("SIGTERM");
  }
}, 60_000);

test("a model that was sent to a signed address is served", async () => {
  const server = await startBinary({ dir });
  const { key } = await makeKey(dir);
  // biome-ignore lint/suspicious/noExplicitAny: whatever the server answered
  const post = async (path: string, json: unknown): Promise<any> => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const answer = await fetch(`${server.url}/v1${path}`, { method: "POST", headers, body: JSON.stringify(json) });
    expect(answer.status).toBeLessThan(300);
    return answer.json();
  };
  try {
    const file = Bun.file(join(import.meta.dir, "../../models/verk-tiny/verk-tiny.gguf"));
    const { id } = await post("/models", { name: "sent" });
    const { files } = await post(`/models/${id}/presigned-upload`, {
      files: [{ path: "sent.gguf", size_bytes: file.size, sha256: await sha256File(file.name ?? "") }],
    });
    expect((await fetch(files[0].url, { method: "PUT", body: file })).status).toBe(200);
    expect(await post(`/models/${id}/complete`, {})).toMatchObject({ status: "ready", source: "upload" });
    await post("/deployments", { model: "sent", name: "sent", source: "hub", context_length: 256 });
    const said = await post("/chat/completions", {
      model: "sent",
      messages: [{ role: "user", content: "2 + 3" }],
      temperature: 0,
      max_tokens: 8,
    });
    expect(said.choices[0].message.content).toContain("5");
  } finally {
    await server.kill("SIGTERM");
  }
}, 60_000);
