/** Servers of the Model Context Protocol: real ones from npm in a jail, and one that follows a script. */
import { chmodSync, chownSync, mkdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { buildJail } from "../../scripts/bundle/jail.ts";
import { startJailed } from "../../src/sandbox/jail/jail.ts";
import { SESSION_ENV, sessionMounts } from "../../src/sandbox/jail/session_root.ts";
import type { JailLimits } from "../../src/sandbox/jail/types.ts";
import { McpClient, TIMES, type Times } from "../../src/sandbox/mcp/client.ts";
import { stdioTransport } from "../../src/sandbox/mcp/stdio.ts";
import { tempDir } from "../harness.ts";
import { npmPackages } from "../npm_packages.ts";
import { isRoot, NOBODY } from "../sandbox/nobody.ts";
import { nodeOrBun } from "../servers/objects.ts";

export const packages = npmPackages(import.meta.dir, "mcp");

/** Node, or Bun where there is no Node. */
export const RUNTIME = "/runtime";

const LIMITS: JailLimits = {
  processes: 64,
  memoryBytes: 1 << 30,
  openFiles: 1024,
  fileBytes: 64 << 20,
  cpuSeconds: 60,
  wallMs: 120_000,
  disk: { at: "/workspace", bytes: 16 << 20, entries: 500 },
};

export type JailedServer = {
  argv: readonly string[];
  env?: Record<string, string>;
  limits?: Partial<JailLimits>;
  times?: Partial<Times>;
};

/** The client of a server that runs in a jail with an empty /workspace and the packages at /mcp. */
export async function jailedClient({ argv, env = {}, limits = {}, times = {} }: JailedServer) {
  const workspace = join(tempDir(), "workspace");
  mkdirSync(workspace);
  chmodSync(join(workspace, ".."), 0o755);
  if (isRoot) chownSync(workspace, NOBODY, NOBODY);
  mkdirSync(packages.folder, { recursive: true });
  const volumes = [{ from: packages.folder, to: "/mcp", writable: false }];
  const helper = buildJail(join(import.meta.dir, "../.."));
  const pids: number[] = [];
  const transport = await stdioTransport((io) => {
    const run = startJailed(
      { path: helper },
      {
        argv,
        env: { ...SESSION_ENV, ...env },
        cwd: "/workspace",
        mounts: [
          ...sessionMounts({ workspace, volumes, network: "none", tmpBytes: 16 << 20 }),
          { kind: "read_only", from: realpathSync(nodeOrBun()), to: RUNTIME },
        ],
        limits: { ...LIMITS, ...limits },
        network: "none",
        filter: "session",
      },
      io,
    );
    pids.push(run.pid);
    return run;
  });
  const client = await McpClient.open(transport, AbortSignal.timeout(200_000), {
    ...TIMES,
    startMs: 180_000,
    ...times,
  });
  return { client, workspace, pid: pids[0] as number };
}

/** A server for `node -e`: it answers initialize and tools/list; `onCall` runs for each call, with `send`, `reply` and `id`. */
export const scripted = (onCall: string, more = ""): string[] => [
  RUNTIME,
  "-e",
  `const send = (m) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...m }) + "\\n");
   const tools = [{ name: "act", inputSchema: { type: "object" } }];
   let calls = 0;
   ${more}
   require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
     const { id, method, params } = JSON.parse(line);
     const reply = (text) => send({ id, result: { content: [{ type: "text", text: String(text) }] } });
     if (method === "initialize") send({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} } } });
     else if (method === "tools/list") send({ id, result: { tools } });
     else if (method === "tools/call") { calls++; ${onCall} }
     else if (typeof onOther === "function") onOther({ id, method, params, send });
   });
   function noop() {}`,
];
