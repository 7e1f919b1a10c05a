import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { self } from "../../platform/workers/self.ts";
import type { Children } from "../native_probe.ts";

export type DemoServer = {
  url: string;
  pid: number;
  /** Sends the signal and waits for the exit. */
  kill: (signal: NodeJS.Signals) => Promise<{ code: number | null; signal: string | number | null }>;
};

/** Folder and child processes of the demo. `tail` is the last log output, also of a server that never became ready. */
export type Stage = Children & { dir: string; tail: string };

const READY_MS = 30_000;
const TAIL_CHARS = 8192;
// An explicit environment: VERK_ variables of the operator must not configure the demo.
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const childEnv = (dir: string) => ({ HOME: dir, PATH });

/** An empty file, so that the configuration of the system is not used. */
function demoConfig(dir: string): string {
  const file = join(dir, "demo.toml");
  writeFileSync(file, "");
  return file;
}

/** Starts `verk serve` as a child process on a free port. */
export async function startDemoServer(stage: Stage): Promise<DemoServer> {
  const { dir, signal } = stage;
  const argv = self("serve", "--data", join(dir, "data"), "--listen", "127.0.0.1:0", "--config", demoConfig(dir));
  const child = Bun.spawn(argv, {
    env: childEnv(dir),
    cwd: dir,
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
    signal,
    killSignal: "SIGKILL",
  });
  stage.exits.push(child.exited);
  void keepTail(child.stderr, stage);
  const kill: DemoServer["kill"] = async (name) => {
    child.kill(name);
    await child.exited;
    return { code: child.exitCode, signal: child.signalCode };
  };
  const deadline = performance.now() + READY_MS;
  for (;;) {
    const url = await answeringUrl(dir, child.pid);
    if (url) return { url, pid: child.pid, kill };
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`the server stopped (${child.signalCode ?? `exit code ${child.exitCode}`})`);
    if (performance.now() > deadline) {
      await kill("SIGKILL");
      throw new Error(`the server was not ready within ${READY_MS / 1000} s`);
    }
    await Bun.sleep(5);
  }
}

/** The server writes its address to server.json when it listens. A file left by a killed server has another pid. */
async function answeringUrl(dir: string, pid: number): Promise<string | undefined> {
  try {
    const holder = JSON.parse(readFileSync(join(dir, "data/server.json"), "utf8")) as {
      pid: number;
      listen: string | null;
    };
    if (holder.pid !== pid || holder.listen === null) return undefined;
    const url = `http://${holder.listen}`;
    return (await fetch(`${url}/readyz`)).ok ? url : undefined;
  } catch {
    return undefined; // not yet
  }
}

async function keepTail(stream: ReadableStream<Uint8Array>, stage: Stage) {
  const decoder = new TextDecoder();
  for await (const chunk of stream)
    stage.tail = (stage.tail + decoder.decode(chunk, { stream: true })).slice(-TAIL_CHARS);
}

/** Runs a command of this program on the demo's data directory and parses its output as JSON. */
export async function runCommand<T>({ dir, signal, exits }: Stage, ...args: string[]): Promise<T> {
  const argv = self(...args, "--data", join(dir, "data"), "--config", demoConfig(dir), "--json");
  const child = Bun.spawn(argv, {
    env: childEnv(dir),
    cwd: dir,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    signal,
    killSignal: "SIGKILL",
  });
  exits.push(child.exited);
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (child.exitCode !== 0) throw new Error(`verk ${args.join(" ")}: exit code ${child.exitCode}: ${err.trim()}`);
  return JSON.parse(out) as T;
}
