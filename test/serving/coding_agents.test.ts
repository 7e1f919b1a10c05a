// tier: all (serves a model to five coding agents, 60 s)
/**
 * Coding agents from npm, unchanged, with a base URL and a key: each makes one turn with a tool. An agent has no other address
 * than the server. The model is a recording: the first answer calls the tool of the agent that runs a command, the second ends.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { Server } from "node:net";
import { join } from "node:path";
import { alone, forward, installAgents, PROGRAMS } from "../agents/agents.ts";
import { tempDir, until } from "../harness.ts";
import { freePort, NotAvailable } from "../servers/process.ts";
import { PIECE, recordedModel } from "./recorded_model.ts";
import { startServing } from "./served.ts";

const COMMAND = "sh greet.sh | tee said.txt";
const FINAL = "greet.sh says Hello to the world.";
const QUESTION = "Run greet.sh with the tool.";
const CONTEXT = 131_072;

type Setting = { url: string; home: string };
type Agent = {
  name: keyof typeof PROGRAMS;
  /** The tool that runs a command, and its arguments. */
  tool: { name: string; arguments: object };
  args: (setting: Setting) => string[];
  /** Files of its settings, by path in its home. */
  files?: (setting: Setting & { key: string }) => Record<string, string>;
  env?: (setting: Setting & { key: string }) => Record<string, string>;
};

const AGENTS: Agent[] = [
  {
    name: "claude",
    tool: { name: "Bash", arguments: { command: COMMAND, description: "Runs the script" } },
    args: () => ["-p", QUESTION, "--model", "claude", "--allowedTools", "Bash"],
    env: ({ url, key }) => ({ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: key }),
  },
  {
    name: "codex",
    tool: { name: "exec_command", arguments: { cmd: COMMAND } },
    args: () => [
      "exec",
      "--skip-git-repo-check",
      "--dangerously-bypass-approvals-and-sandbox",
      "-m",
      "codex",
      QUESTION,
    ],
    files: ({ url }) => ({
      ".codex/config.toml": `model_provider = "verk"\n[model_providers.verk]\nname = "verk"\nbase_url = "${url}/v1"\nenv_key = "VERK_API_KEY"\nwire_api = "responses"\n`,
    }),
  },
  {
    name: "opencode",
    tool: { name: "bash", arguments: { command: COMMAND, description: "Runs the script" } },
    args: () => ["run", "-m", "verk/opencode", QUESTION],
    files: ({ url }) => ({
      "opencode.json": JSON.stringify({
        provider: {
          verk: {
            npm: "@ai-sdk/openai-compatible",
            options: { baseURL: `${url}/v1`, apiKey: "{env:VERK_API_KEY}" },
            models: { opencode: { limit: { context: CONTEXT, output: 4_096 } } },
          },
        },
      }),
    }),
  },
  {
    name: "pi",
    tool: { name: "bash", arguments: { command: COMMAND } },
    args: () => ["--offline", "--model", "verk/pi", "-p", QUESTION],
    files: ({ url }) => ({
      ".pi/agent/models.json": JSON.stringify({
        providers: {
          verk: { baseUrl: `${url}/v1`, api: "openai-completions", apiKey: "VERK_API_KEY", models: [{ id: "pi" }] },
        },
      }),
    }),
  },
  {
    name: "continue",
    tool: { name: "Bash", arguments: { command: COMMAND } },
    args: ({ home }) => ["-p", QUESTION, "--config", join(home, "continue.yaml"), "--auto"],
    files: ({ url, key }) => ({
      "continue.yaml": [
        "name: verk",
        "version: 1.0.0",
        "schema: v1",
        "models:",
        "  - name: verk",
        "    provider: openai",
        "    model: continue",
        `    apiBase: ${url}/v1`,
        `    apiKey: ${key}`,
        "    roles: [chat]",
        "    capabilities: [tool_use]",
        "",
      ].join("\n"),
    }),
  },
];

const unavailable = await installAgents().then(
  () => undefined,
  (error: unknown) => {
    if (error instanceof NotAvailable) return error.message;
    throw error;
  },
);

let server: Awaited<ReturnType<typeof startServing>>;
let door: Server;
let root: string;
let socket: string;
beforeAll(async () => {
  root = tempDir();
  socket = join(root, "server.sock");
  const files = Object.fromEntries(
    AGENTS.map(({ name, tool }) => {
      const dir = join(root, "models", name);
      mkdirSync(dir, { recursive: true });
      const call = `<tool_call>\n${JSON.stringify(tool)}\n</tool_call>`;
      const length = Math.ceil(call.length / PIECE) * PIECE;
      return [name, recordedModel(dir, [call.padEnd(length, "\n"), FINAL], CONTEXT)];
    }),
  );
  server = await startServing({ files });
  const areListed = async () =>
    (await server.get("/v1/models?registry=true&limit=100")).data.filter(
      ({ name }: { name: string }) => name in PROGRAMS,
    ).length === AGENTS.length;
  await until("the models to be listed", areListed, 240_000);
  door = await forward(socket, Number(new URL(server.url).port));
}, 300_000);
afterAll(async () => {
  door?.close();
  await server?.stop();
  if (root) rmSync(root, { recursive: true });
});

for (const { name, args, files, env } of AGENTS)
  test.skipIf(unavailable !== undefined)(
    `${name} runs a command and reads its output${unavailable === undefined ? "" : ` (${unavailable})`}`,
    async () => {
      const id = await server.deploy({ model: name, name, parallel: 2, context_length: CONTEXT });
      const home = join(root, name);
      const port = await freePort();
      const setting = { url: `http://127.0.0.1:${port}`, home };
      mkdirSync(home);
      writeFileSync(join(home, "greet.sh"), 'echo "Hello, world"\n');
      for (const [path, text] of Object.entries(files?.({ ...setting, key: server.key }) ?? {})) {
        mkdirSync(join(home, path, ".."), { recursive: true });
        writeFileSync(join(home, path), text);
      }
      const child = Bun.spawn(alone(socket, port, [...PROGRAMS[name](), ...args(setting)]), {
        cwd: home,
        env: {
          HOME: home,
          PATH: process.env["PATH"] ?? "",
          VERK_API_KEY: server.key,
          ...env?.({ ...setting, key: server.key }),
        },
        stdout: "pipe",
        stderr: "pipe",
      });
      const [said, problem] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
      const code = await child.exited;
      expect([code, said.includes(FINAL)], `${said}\n${problem}`).toEqual([0, true]);
      expect(readFileSync(join(home, "said.txt"), "utf8")).toBe("Hello, world\n");
      await server.call("POST", `/v1/deployments/${id}/stop`);
    },
    600_000, // Claude Code's prompt has 86,000 tokens here: one for each letter
  );
