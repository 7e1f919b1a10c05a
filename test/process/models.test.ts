import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { program, startBinary, tempDir, until } from "../harness.ts";
import { makeModel } from "../models.ts";

let dir: string;
let source: string;

beforeAll(() => {
  dir = join(tempDir(), "data");
  mkdirSync(dir);
  source = makeModel(tempDir(), { arch: "qwen2", type: "Q8_0" });
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

async function verk(...args: string[]) {
  const child = Bun.spawn([...program(), "models", ...args, "--data", dir], {
    env: { HOME: dir, PATH: process.env["PATH"] ?? "" },
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, out, err };
}

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
    expect(again.err).toContain("There is a model beside");
    const notes = join(dir, "notes.gguf");
    await Bun.write(notes, "GGUF and then nothing of the kind");
    const refused = await verk("import", notes);
    expect(refused).toMatchObject({ code: 1, out: "" });
    expect(refused.err).toMatch(/notes\.gguf: .*version/);
  } finally {
    await server.kill("SIGTERM");
  }
}, 60_000);
