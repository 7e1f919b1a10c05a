/** Stops and starts the server around an upgrade: the service of systemd, or a server of our own for the health check. */
import { existsSync } from "node:fs";
import { UsageError } from "../../../lib/errors.ts";
import { SECOND_MS } from "../../../lib/units.ts";
import { type Holder, isHeld } from "../../../platform/db/data_lock.ts";
import { EXIT } from "../../args.ts";

const POLL_MS = 100;
const MOST_RESTARTS = 2; // of systemd: a program that fails at its start three times stays broken
const STOP_MS = 60 * SECOND_MS;
const STEADY_MS = SECOND_MS; // a program that fails right after its start does not work

export type Service = {
  stop: () => Promise<void>;
  /** Starts the program and returns undefined once it is ready and stays so, else the reason why it is not. */
  start: (version: string) => Promise<string | undefined>;
};
type Options = {
  program: string;
  dataDir: string;
  config: string | undefined;
  data: string | undefined;
  timeoutMs: number;
};

export const SERVICE_FLAG = {
  type: "string",
  value: "NAME",
  doc: "Service of systemd; none = start the server for a check alone (default: verk, if systemd runs here)",
} as const;

export function serviceOf(name: string | undefined, options: Options): Service {
  const hasSystemd = existsSync("/run/systemd/system") && systemctl("cat", "verk").ok;
  const chosen = name ?? (hasSystemd ? "verk" : "none");
  return chosen === "none" ? ownServer(options) : systemdService(chosen, options);
}

function systemctl(...args: string[]) {
  if (Bun.which("systemctl") === null) return { ok: false, text: "systemctl is not installed" };
  const run = Bun.spawnSync(["systemctl", ...args], { stdin: "ignore" });
  return { ok: run.success, text: `${run.stdout}${run.stderr}`.trim() };
}

function systemdService(name: string, { dataDir, timeoutMs }: Options): Service {
  return {
    async stop() {
      const { ok, text } = systemctl("stop", name);
      if (!ok) throw new UsageError(`systemctl stop ${name} failed: ${text}`, EXIT.failed);
      await waitUntilFree(dataDir);
    },
    async start(version) {
      systemctl("reset-failed", name);
      const { ok, text } = systemctl("start", "--no-block", name); // a start that fails once is tried again
      if (!ok) return `systemctl start ${name} failed: ${text}`;
      return await untilReady(dataDir, version, timeoutMs, () => {
        const shown = systemctl("show", name, "--property=ActiveState,NRestarts").text;
        const restarts = Number(/NRestarts=(\d+)/.exec(shown)?.[1] ?? 0);
        if (/ActiveState=failed/.test(shown) || restarts > MOST_RESTARTS)
          return `the service failed; see journalctl -u ${name}`;
        return undefined;
      });
    },
  };
}

function ownServer({ program, dataDir, config, data, timeoutMs }: Options): Service {
  return {
    async stop() {
      const { held, holder } = isHeld(dataDir);
      if (held)
        throw new UsageError(
          `A server runs on ${dataDir}${holder ? ` (process ${holder.pid})` : ""}. Stop it first, or name its service with --service.`,
          EXIT.held,
        );
    },
    async start(version) {
      const flags = [
        ...(config === undefined ? [] : ["--config", config]),
        ...(data === undefined ? [] : ["--data", data]),
      ];
      const child = Bun.spawn([program, "serve", ...flags, "--listen", "127.0.0.1:0"], {
        ...({ stdin: "ignore", stdout: "ignore", stderr: "pipe" } as const),
      });
      const errors = new Response(child.stderr).text();
      const isDead = () => (child.exitCode === null && child.signalCode === null ? undefined : "the server stopped");
      const fault = await untilReady(dataDir, version, timeoutMs, isDead);
      child.kill(fault === undefined ? "SIGTERM" : "SIGKILL");
      await child.exited;
      await waitUntilFree(dataDir);
      const last = (await errors).trim().split("\n").at(-1);
      return fault === undefined ? undefined : `${fault}${last ? ` (${last.slice(0, 300)})` : ""}`;
    },
  };
}

async function waitUntilFree(dataDir: string) {
  const deadline = performance.now() + STOP_MS;
  while (isHeld(dataDir).held) {
    if (performance.now() > deadline) throw new UsageError(`The server on ${dataDir} does not stop`, EXIT.held);
    await Bun.sleep(POLL_MS);
  }
}

async function untilReady(dir: string, version: string, timeoutMs: number, isDead: () => string | undefined) {
  const deadline = performance.now() + timeoutMs;
  let ready: { pid: number; since: number } | undefined;
  for (;;) {
    const { holder } = existsSync(dir) ? isHeld(dir) : {};
    const isUp = holder?.version === version && (await isReady(holder));
    if (!isUp) ready = undefined;
    else if (ready?.pid !== holder.pid) ready = { pid: holder.pid, since: performance.now() };
    else if (performance.now() - ready.since >= STEADY_MS) return undefined;
    const fault = isDead();
    if (fault !== undefined) return fault;
    if (performance.now() > deadline) return `the server was not ready after ${timeoutMs / SECOND_MS} s`;
    await Bun.sleep(POLL_MS);
  }
}

/** Both are on this machine: a server with TLS has a socket for commands. */
export async function isReady({ listen, socket }: Holder): Promise<boolean> {
  if (listen === null) return false;
  const signal = AbortSignal.timeout(5 * SECOND_MS);
  const address = listen.replace(/^0\.0\.0\.0:/, "127.0.0.1:").replace(/^\[::\]:/, "[::1]:");
  try {
    return socket === undefined
      ? (await fetch(`http://${address}/readyz`, { signal })).ok
      : (await fetch("http://socket.localhost/readyz", { signal, unix: socket })).ok;
  } catch {
    return false; // not yet, or no longer
  }
}
