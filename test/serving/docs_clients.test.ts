// tier: all (every block of the documents)
/** Runs every example of docs/clients.md, unchanged, against the executable. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { blocksOf, ROOT } from "../docs_blocks.ts";
import { until } from "../harness.ts";
import { startServing } from "./served.ts";

let server: Awaited<ReturnType<typeof startServing>>;
let folder: string;
beforeAll(async () => {
  mkdirSync(join(ROOT, "dist"), { recursive: true });
  folder = mkdtempSync(join(ROOT, "dist", "clients-")); // inside, so that the packages are found
  server = await startServing({
    models: { random: { arch: "llama", type: "F32", context: 1024 } },
    projectors: { random: { kind: "mlp", outputs: 64 } },
  });
  await server.deploy({ model: "random", name: "demo", parallel: 4, context_length: 1024 });
  await until("verk-tiny", async () => (await server.get("/v1/models/verk-tiny")).status === "ready", 60_000);
}, 120_000);
afterAll(async () => {
  if (folder) rmSync(folder, { recursive: true });
  await server?.stop();
});

const EXAMPLES = blocksOf("docs/clients.md").filter(({ language }) => language === "ts");
const packagesOf = (text: string) => [...text.matchAll(/^import .* from "([^"]+)";$/gm)].map(([, name]) => name ?? "");
const isInstalled = (name: string) => {
  try {
    return Bun.resolveSync(name, ROOT) !== "";
  } catch {
    return false;
  }
};

test("the page has an example of each client, five lines long", () => {
  expect(EXAMPLES.length).toBeGreaterThanOrEqual(8);
  const long = EXAMPLES.filter(({ text }) => text.trim().split("\n").length > 5).map(({ line }) => line);
  expect(long).toEqual([]);
});

async function outputOf(file: string): Promise<string> {
  const env = { ...process.env, VERK_URL: server.url, VERK_API_KEY: server.key };
  const child = Bun.spawn([process.execPath, file], { env, stdout: "pipe", stderr: "pipe" });
  const [said, problem, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  expect([code, code === 0 ? "" : problem]).toEqual([0, ""]);
  return said.trim();
}

const isBatch = (text: string) => text.includes("batches.create");

for (const { text, line } of EXAMPLES) {
  const packages = packagesOf(text);
  const missing = packages.filter((name) => !isInstalled(name));
  test.skipIf(missing.length > 0)(
    `docs/clients.md:${line}: ${packages.join(", ")}${missing.length > 0 ? ` (not installed: ${missing.join(", ")})` : ""}`,
    async () => {
      const file = join(folder, `example_${line}.ts`);
      writeFileSync(file, text);
      let said = await outputOf(file);
      for (let i = 0; i < 2 && said === ""; i++) said = await outputOf(file); // one answer of a thousand ends at once
      expect(said).not.toBe("");
    },
    60_000,
  );
}

const batches = EXAMPLES.filter(({ text }) => isBatch(text));

test("a batch of each format is among the examples", () => {
  expect(batches.flatMap(({ text }) => packagesOf(text)).toSorted()).toEqual(["@anthropic-ai/sdk", "openai"]);
});

/** The examples end when the batch is accepted. The tests run in the order of the file. */
test.skipIf(!batches.every(({ text }) => packagesOf(text).every(isInstalled)))(
  "the batches of the examples end with all their answers",
  async () => {
    const endedOf = async (path: string) => {
      const { data } = await server.get(path);
      return data.length > 0 && data.every((each: Batch) => each.ended_at || each.completed_at) ? data : undefined;
    };
    const [ours] = await until("the batch of OpenAI", () => endedOf("/v1/batches"), 60_000);
    expect([ours.status, ours.request_counts]).toEqual(["completed", { total: 1, completed: 1, failed: 0 }]);
    const [other] = await until("the batch of Anthropic", () => endedOf("/v1/messages/batches"), 60_000);
    expect([other.processing_status, other.request_counts]).toMatchObject(["ended", { succeeded: 1, errored: 0 }]);
  },
  120_000,
);

type Batch = { ended_at?: string | null; completed_at?: number | null };
