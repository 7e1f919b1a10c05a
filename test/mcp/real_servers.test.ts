// tier: all (starts servers from npm in jails, 10 s)
/** Servers of the Model Context Protocol from npm, unchanged, in a jail without a network; and its suite for clients. */
import { beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { McpClient } from "../../src/sandbox/mcp/client.ts";
import { tempDir } from "../harness.ts";
import { jailedClient, packages, RUNTIME } from "./servers.ts";

const signal = AbortSignal.timeout(600_000);
const at = (path: string) => `/mcp/node_modules/@modelcontextprotocol/${path}`;
const start = (path: string, args: string[] = [], env: Record<string, string> = {}) =>
  jailedClient({ argv: [RUNTIME, at(path), ...args], env });
const call = (client: McpClient, name: string, args: Record<string, unknown> = {}) => client.call(name, args, signal);

beforeAll(packages.install, 300_000);

describe("servers from npm in a jail", () => {
  test("server-everything lists its tools, adds numbers and reports progress", async () => {
    const { client } = await start("server-everything/dist/index.js", ["stdio"]);
    const names = (await client.tools(signal)).map(({ name }) => name);
    expect(names).toContain("echo");
    expect(await call(client, "echo", { message: "hello" })).toEqual({ text: "Echo: hello", failed: false });
    expect((await call(client, "get-sum", { a: 2, b: 40 })).text).toContain("42");
    expect((await call(client, "get-tiny-image")).text).toContain("[image image/png]");
    const long = await call(client, "trigger-long-running-operation", { duration: 1, steps: 2 });
    expect(long.text).toContain("completed");
    expect((await call(client, "get-sum", { a: "x" })).failed).toBe(true);
    await client.ping(signal);
    await client.close();
  }, 240_000);

  test("server-filesystem writes and reads below its folder alone", async () => {
    const { client, workspace } = await start("server-filesystem/dist/index.js", ["/workspace"]);
    const written = await call(client, "write_file", { path: "/workspace/a.txt", content: "wet" });
    expect(written.failed).toBe(false);
    expect(readFileSync(join(workspace, "a.txt"), "utf8")).toBe("wet");
    expect((await call(client, "read_text_file", { path: "/workspace/a.txt" })).text).toBe("wet");
    expect(await call(client, "read_text_file", { path: "/etc/passwd" })).toMatchObject({ failed: true });
    const tools = await client.tools(signal);
    expect(tools.find(({ name }) => name === "read_text_file")?.isReadOnly).toBe(true);
    expect(tools.find(({ name }) => name === "write_file")?.isReadOnly).toBe(false);
    await client.close();
  }, 240_000);

  test("server-memory keeps what it is told", async () => {
    const env = { MEMORY_FILE_PATH: "/workspace/memory.jsonl" };
    const { client, workspace } = await start("server-memory/dist/index.js", [], env);
    const entities = [{ name: "Ada", entityType: "person", observations: ["likes rain"] }];
    expect((await call(client, "create_entities", { entities })).failed).toBe(false);
    expect((await call(client, "search_nodes", { query: "Ada" })).text).toContain("likes rain");
    await client.close();
    expect(readFileSync(join(workspace, "memory.jsonl"), "utf8")).toContain("likes rain");
  }, 240_000);
});

/** The suite also has scenarios with a user who fills in a form, and with OAuth: this client has neither. */
const SCENARIOS = ["initialize", "tools_call", "sse-retry"];

describe("the conformance suite for clients", () => {
  test.each(SCENARIOS)(
    "%s passes without a failure or a warning",
    async (scenario) => {
      const out = tempDir();
      const command = `${process.execPath} ${join(import.meta.dir, "conformance_client.ts")}`;
      const suite = packages.installed("@modelcontextprotocol/conformance/dist/index.js");
      const argv = [
        process.execPath,
        suite,
        "client",
        "--command",
        command,
        "--scenario",
        scenario,
        "-o",
        out,
        "--verbose",
      ];
      const child = Bun.spawn(argv, { cwd: packages.folder, stdout: "pipe", stderr: "pipe" });
      const said = (await Promise.all([child.stdout, child.stderr].map((each) => new Response(each).text()))).join(
        "\n",
      );
      expect([await child.exited, said]).toEqual([0, expect.any(String)]);
      expect(said).not.toMatch(/"status": "(FAILURE|WARNING)"/);
      expect(said).toContain('"status": "SUCCESS"');
    },
    240_000,
  );
});
