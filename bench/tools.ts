import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const ROOT = resolve(import.meta.dir, "..");
export const BINARY = process.env["VERK_BINARY"] ?? join(ROOT, "dist/verk");

/** `figure`: the same value as a number under a name that stays, for `bench compare`. */
export type Row = { bench: string; what: string; value: string; target: string; ok: boolean | null; figure?: Figure };
/** More of `/s` is better, less of the others. */
export type Figure = { name: string; value: number; unit: "/s" | "ms" | "µs" | "MB" };
export type Running = { url: string; pid: number; stop: () => Promise<void> };

/** Processor time that the threads of a process have used, those that have ended included. */
export function processorSeconds(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, "latin1");
  const [user, system] = text
    .slice(text.lastIndexOf(")") + 2)
    .split(" ")
    .slice(11, 13);
  return (Number(user) + Number(system)) / TICKS_PER_SECOND;
}
const TICKS_PER_SECOND = 100; // of the kernel, on both architectures

export const tempDir = () => mkdtempSync(join(tmpdir(), "verk-bench-"));
export const remove = (dir: string) => rmSync(dir, { recursive: true, force: true });
export const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] as number;

/** A core of its own for a program of one thread, where there are two: less luck in a ratio. */
export const pinned = (core: 0 | 1) =>
  navigator.hardwareConcurrency > 1 && Bun.which("taskset") ? ["taskset", "-c", String(core)] : [];

/** A peer prints its address on its first line. */
export async function startPeer(file: string, args: string[], prefix: string[] = []): Promise<Running> {
  const child = Bun.spawn([...prefix, process.execPath, join(ROOT, "bench/peers", file), ...args], {
    stderr: "inherit",
  });
  const { value } = await child.stdout.getReader().read();
  return running(new TextDecoder().decode(value).trim(), child);
}

export async function startVerk(dir: string, prefix: string[] = [], flags: string[] = []): Promise<Running> {
  const env = {
    HOME: dir,
    PATH: process.env["PATH"] ?? "",
    ...(process.env["LD_LIBRARY_PATH"] ? { LD_LIBRARY_PATH: process.env["LD_LIBRARY_PATH"] } : {}), // CUDA's own
    VERK_HTTP__RATE_LIMIT_PER_SECOND: "0",
    VERK_LOG__LEVEL: "warn",
  };
  const command = [...prefix, BINARY, "serve", "--data", dir, "--listen", "127.0.0.1:0", ...flags];
  const child = Bun.spawn(command, { env, cwd: dir, stdout: "ignore", stderr: "ignore" });
  for (;;) {
    if (child.exitCode !== null) throw new Error("verk serve stopped; build it with ./scripts/build");
    try {
      const { listen } = JSON.parse(readFileSync(join(dir, "server.json"), "utf8")) as { listen: string | null };
      if (listen && (await fetch(`http://${listen}/readyz`)).ok) return running(`http://${listen}`, child);
    } catch {}
    await Bun.sleep(1);
  }
}

function running(url: string, child: Bun.Subprocess): Running {
  return {
    url,
    pid: child.pid,
    async stop() {
      child.kill("SIGTERM");
      await child.exited;
    },
  };
}

export async function makeKey(dir: string, scope = "admin"): Promise<string> {
  const child = Bun.spawn([BINARY, "keys", "create", "--data", dir, "--json", "--scope", scope], {
    env: { HOME: dir },
  });
  return (JSON.parse(await new Response(child.stdout).text()) as { key: string }).key;
}

export type Load = { perSecond: number; p50Ms: number; p99Ms: number; bad: number };
export type LoadRequest = {
  url: string;
  connections: number;
  seconds: number;
  method: string;
  headers: Record<string, string>;
  /** `{n}` in it becomes a number that counts up. */
  body?: string;
};

/** Requests from a process of its own with one thread, so that on a small machine the server keeps a core to itself. */
export async function loadOf(
  request: Pick<LoadRequest, "url"> & Partial<LoadRequest>,
  prefix: readonly string[] = [],
): Promise<Load> {
  const whole: LoadRequest = { connections: 64, seconds: 4, method: "GET", headers: {}, ...request };
  const script = join(ROOT, "bench/peers/load.ts");
  const child = Bun.spawn([...prefix, process.execPath, script, JSON.stringify(whole)], { stderr: "inherit" });
  return JSON.parse(await new Response(child.stdout).text()) as Load;
}

/** The longest time between two turns of the event loop since the last call. */
export function watchTurns() {
  let [last, longest] = [performance.now(), 0];
  const timer = setInterval(() => {
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
  });
  const read = async () => {
    await Bun.sleep(2);
    const value = longest;
    longest = 0;
    return value;
  };
  return { longest: read, stop: () => clearInterval(timer) };
}
