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

for (const { text, line } of EXAMPLES) {
  const packages = packagesOf(text);
  const missing = packages.filter((name) => !isInstalled(name));
  test.skipIf(missing.length > 0)(
    `docs/clients.md:${line}: ${packages.join(", ")}${missing.length > 0 ? ` (not installed: ${missing.join(", ")})` : ""}`,
    async () => {
      const file = join(folder, `example_${line}.ts`);
      writeFileSync(file, text);
      const env = { ...process.env, VERK_URL: server.url, VERK_API_KEY: server.key };
      const child = Bun.spawn([process.execPath, file], { env, stdout: "pipe", stderr: "pipe" });
      const [said, problem, code] = await Promise.all([
        new Response(child.stdout).text(),
        new Response(child.stderr).text(),
        child.exited,
      ]);
      expect([code, code === 0 ? "" : problem]).toEqual([0, ""]);
      expect(said.trim()).not.toBe("");
    },
    60_000,
  );
}
