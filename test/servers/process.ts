import { chownSync, cpSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";

/** The directory in which scripts/servers installs. */
export const INSTALLED = resolve(import.meta.dir, "../../.tools/servers");
export const packages = (path: string) => join(INSTALLED, "node_modules", path);

export class NotAvailable extends Error {
  constructor(
    readonly server: string,
    readonly reason: string,
  ) {
    super(`${server} is not available: ${reason}`);
    this.name = "NotAvailable";
  }
}

/** The first that exists, else NotAvailable with what scripts/servers said when it looked for it. */
export function mustFind(server: string, paths: readonly string[]): string {
  const found = paths.find((path) => existsSync(path));
  if (found !== undefined) return found;
  const note = join(INSTALLED, "missing", server.replaceAll("/", "+"));
  throw new NotAvailable(server, existsSync(note) ? readFileSync(note, "utf8").trim() : "run scripts/servers first");
}

const IS_ROOT = process.getuid?.() === 0;
const NOBODY = 65534;
const AS_NOBODY = ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups", "--"];

/** Some servers refuse to run as root, and some should not. */
export const unprivileged = (argv: string[]) => (IS_ROOT ? [...AS_NOBODY, ...argv] : argv);

export function scratch(server: string): string {
  if (!Bun.which("setpriv"))
    throw new NotAvailable(server, "setpriv is missing; on Debian: apt-get install util-linux");
  const dir = mkdtempSync(join(tmpdir(), `verk-${server}-`));
  give(dir);
  return dir;
}

/** To the user that unprivileged servers run as. */
export function give(path: string) {
  if (IS_ROOT) chownSync(path, NOBODY, NOBODY);
}

/** A path that an unprivileged server can read: a checkout may lie in a directory that is closed to others. */
export function readable(path: string, dir: string): string {
  if (!IS_ROOT || Bun.spawnSync([...AS_NOBODY, "test", "-r", path]).success) return path;
  const copy = join(dir, basename(path));
  cpSync(path, copy, { recursive: true, verbatimSymlinks: true });
  return copy;
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return port;
}

export function runToEnd(argv: string[], options: { stdin?: Uint8Array; env?: Record<string, string> } = {}) {
  const { stdin, env = {} } = options;
  const done = Bun.spawnSync(argv, {
    stdin: stdin ?? "ignore",
    stderr: "pipe",
    env: { ...process.env, ...env },
  });
  if (!done.success) throw new Error(`${argv.join(" ")}:\n${done.stdout}${done.stderr}`);
}

export type Launch = {
  /** From `scratch`; removed when the server has ended. */
  dir: string;
  argv: (port: number) => string[];
  /** True once it answers. */
  ready: (port: number) => Promise<boolean>;
  signal?: NodeJS.Signals;
  env?: Record<string, string>;
};

/** Their standard input is the leash: it closes when this process ends. */
const leashes: unknown[] = [];
const DEADLINE_MS = 120_000; // an emulated server on a busy machine

export async function launch({ dir, argv, ready, signal = "SIGTERM", env = {} }: Launch): Promise<number> {
  const port = await freePort();
  const keeper = Bun.spawn([join(import.meta.dir, "keeper.sh"), dir, signal.slice(3), ...argv(port)], {
    stdin: "pipe",
    stdout: "ignore",
    stderr: "inherit",
    env: { ...process.env, ...env },
  });
  keeper.unref();
  for (const end = performance.now() + DEADLINE_MS; performance.now() < end; await Bun.sleep(20)) {
    if (await ready(port).catch(() => false)) {
      leashes.push(keeper.stdin);
      return port;
    }
    if (hasEnded(dir)) break;
  }
  const said = readFileSync(join(dir, "log"), "utf8").slice(-4000);
  keeper.stdin.end();
  throw new Error(`${argv(port).join(" ")} does not start:\n${said}`);
}

/** Shared by all tests of the process. Another program may take the port that was chosen, so it has a second try. */
export function once<T>(start: () => Promise<T>): () => Promise<T> {
  let started: Promise<T> | undefined;
  const again = (error: unknown) => (error instanceof NotAvailable ? Promise.reject(error) : start());
  return () => {
    started ??= start().catch(again);
    return started;
  };
}

function hasEnded(dir: string): boolean {
  const file = join(dir, "pid");
  if (!existsSync(file)) return false;
  const status = `/proc/${readFileSync(file, "utf8").trim()}/status`;
  return !existsSync(status) || /^State:\s+Z/m.test(readFileSync(status, "utf8"));
}

/** For what a server or a client needs to have as a file, readable by the server alone. */
export function secretFile(path: string, text: string): string {
  writeFileSync(path, text, { mode: 0o600 });
  give(path);
  return path;
}
