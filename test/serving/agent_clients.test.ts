// tier: all (serves models)
/** A coding agent from npm, unchanged, edits a file through the executable. Its commands are those of docs/clients.md. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { blocksOf, isShell, ROOT } from "../docs_blocks.ts";
import { tempDir } from "../harness.ts";
import { recordedModel } from "./recorded_model.ts";
import { startServing } from "./served.ts";

const call = (name: string, args: object) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
const ANSWERS = [
  `I look at the file first.\n${call("read", { path: "greet.sh" })}`,
  `The word "Helo" lacks a letter. ${call("edit", { edits: [{ oldText: "Helo", newText: "Hello" }], path: "greet.sh" })}`,
  call("bash", { timeout: 10, command: "sh greet.sh | tee said.txt" }),
  "greet.sh now says Hello.",
];

let server: Awaited<ReturnType<typeof startServing>>;
let root: string;
beforeAll(async () => {
  root = tempDir();
  server = await startServing({ files: { recorded: recordedModel(root, ANSWERS) } });
  await server.deploy({ model: "recorded", name: "demo", parallel: 1, context_length: 32_768 });
  mkdirSync(join(root, "bin"));
  const cli = Bun.resolveSync("@mariozechner/pi-coding-agent", ROOT).replace(/index\.js$/, "cli.js");
  writeFileSync(join(root, "bin/pi"), `#!/bin/sh\nexec "${process.execPath}" "${cli}" "$@"\n`); // no machine needs Node
  chmodSync(join(root, "bin/pi"), 0o755);
}, 120_000);
afterAll(async () => {
  await server?.stop();
  if (root) rmSync(root, { recursive: true });
});

const [example, ...others] = blocksOf("docs/clients.md").filter(isShell);

test("the page shows the agent in one block of five lines", () => {
  expect([example?.text.trim().split("\n").length, others.length]).toEqual([5, 0]);
});

for (const { api, base } of [
  { api: "openai-completions", base: "$VERK_URL/v1" },
  { api: "openai-responses", base: "$VERK_URL/v1" },
  { api: "anthropic-messages", base: "$VERK_URL" },
])
  test(`pi with ${api} reads, edits and runs a file, and exits with 0`, async () => {
    const home = join(root, api);
    mkdirSync(home);
    writeFileSync(join(home, "greet.sh"), 'echo "Helo, world"\n');
    const script = example?.text.replace('"$VERK_URL/v1"', `"${base}"`).replace("openai-completions", api) ?? "";
    const env = {
      HOME: home,
      PATH: `${join(root, "bin")}:${process.env["PATH"]}`,
      VERK_URL: server.url,
      VERK_API_KEY: server.key,
    };
    const child = Bun.spawn(["bash", "-euc", script], { cwd: home, env, stdout: "pipe", stderr: "pipe" });
    const [said, problem] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    expect([await child.exited, problem, said.trim()]).toEqual([0, "", ANSWERS.at(-1) as string]);
    expect(readFileSync(join(home, "greet.sh"), "utf8")).toBe('echo "Hello, world"\n');
    expect(readFileSync(join(home, "said.txt"), "utf8")).toBe("Hello, world\n");
  }, 60_000);
