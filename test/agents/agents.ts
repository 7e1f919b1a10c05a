/**
 * Coding agents and further clients from npm, each as its maker ships it. They are installed below .tools/agents by the versions of bun.lock, with
 * the first test that needs them.
 */
import { rmSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { npmPackages } from "../npm_packages.ts";
import { nodeOrBun } from "../servers/objects.ts";

const { folder: FOLDER, installed, install } = npmPackages(import.meta.dir, "agents");
/** Throws NotAvailable if the packages cannot be downloaded. */
export const installAgents = install;

const ARCH = process.arch === "arm64" ? "arm64" : "x64";
const CODEX_TARGET = `${process.arch === "arm64" ? "aarch64" : "x86_64"}-unknown-linux-musl`;

/** The program of each agent. Those that are not scripts have a package for each architecture. */
export const PROGRAMS = {
  claude: () => [installed(`@anthropic-ai/claude-code-linux-${ARCH}/claude`)],
  codex: () => [installed(`@openai/codex-linux-${ARCH}/vendor/${CODEX_TARGET}/bin/codex`)],
  opencode: () => [installed(`opencode-linux-${ARCH}/bin/opencode`)],
  pi: () => [nodeOrBun(), installed("@mariozechner/pi-coding-agent/dist/cli.js")],
  continue: () => [nodeOrBun(), installed("@continuedev/cli/dist/cn.js")],
};

// biome-ignore lint/suspicious/noExplicitAny: the libraries are not installed where the compiler looks
type Library = any;

/** A client library: `const { ChatAnthropic } = await clientOf("@langchain/anthropic")`. */
export const clientOf = async (name: string): Promise<Library> => await import(Bun.resolveSync(name, FOLDER));

/** Connections to a socket of the file system go to a port of this machine. */
export function forward(socket: string, port: number): Promise<Server> {
  rmSync(socket, { force: true });
  const server = createServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    client.on("error", () => upstream.destroy());
    upstream.on("error", () => client.destroy());
    client.pipe(upstream).pipe(client);
  });
  return new Promise((done) => server.listen(socket, () => done(server)));
}

const LOOPBACK_ALONE = ["unshare", "--net", "--map-root-user", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"];

/** The command line of an agent without a way out. `port`: where it finds the server. */
export const alone = (socket: string, port: number, argv: readonly string[]): string[] => [
  ...LOOPBACK_ALONE,
  ...[process.execPath, join(import.meta.dir, "alone.ts"), socket, String(port)],
  ...argv,
];
