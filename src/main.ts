/** argv → worker | a command. Only dynamic imports below, so that a worker never loads the server. */
import { existsSync } from "node:fs";
import { buildFacts, COMMIT, VERSION } from "./lib/version.ts";

// Service accounts often have no home, or one that does not exist; libraries call os.homedir(), which then throws.
if (!existsSync(process.env["HOME"] ?? "")) process.env["HOME"] = process.env["VERK_DATA"] ?? process.cwd();

process.umask(0o077); // whatever this program writes is its owner's alone

const [command, ...args] = process.argv.slice(2);

// Bun holds every request back while 256 are under way, those to workers and those of webhooks together, and reads
// another number before the first line of a program. So a server without one becomes itself once more, under the same
// process id: 5 ms, which the service's unit spares it.
const MOST_REQUESTS = "BUN_CONFIG_MAX_HTTP_REQUESTS";
if (command === "serve" && !process.env[MOST_REQUESTS] && Bun.main.startsWith("/$bunfs/")) {
  try {
    const env = { ...process.env, [MOST_REQUESTS]: "16384" };
    process.execve?.(process.execPath, [process.execPath, command, ...args], env);
  } catch {} // the executable was replaced at this moment: 256 will do
}

// Not inside a try block: there the bundler would accept a module that does not exist.
async function dispatch(): Promise<void> {
  const { armFailpoint } = await import("./platform/failpoint.ts");
  armFailpoint(process.env["VERK_FAILPOINT"]);
  if (command === "worker") {
    const { runWorker } = await import("./workers/main.ts");
    return runWorker(args[0] ?? "", args.slice(1)); // the process lives on while the worker has something to wait for
  }
  if (command === "node") {
    const { runNode } = await import("./cli/node/main.ts");
    return runNode(args);
  }
  const { run } = await import("./cli/index.ts");
  process.exitCode = await run(process.argv.slice(2));
}

async function explain(error: unknown): Promise<never> {
  const { UsageError } = await import("./lib/errors.ts");
  if (!(error instanceof UsageError)) throw error;
  console.error(`verk: ${error.message}`);
  process.exit(error.exitCode);
}

const asksVersion = command === "version" || command === "--version" || command === "-v";
if (asksVersion && !args.includes("--help") && !args.includes("-h")) {
  console.log(args.includes("--json") ? JSON.stringify(buildFacts()) : `verk ${VERSION} (${COMMIT})`);
} else {
  await dispatch().catch(explain);
}
