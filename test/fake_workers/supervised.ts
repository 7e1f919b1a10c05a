/** A worker that follows instructions, mostly bad ones, for tests of the supervisor. */
import { readFileSync, writeSync } from "node:fs";
import { UsageError } from "../../src/lib/errors.ts";
import { type Host, runHosted } from "../../src/workers/host.ts";
import { PROTOCOL, WorkerError } from "../../src/workers/protocol.ts";
import { type FromFake, ToFake } from "./protocol.ts";

type FakeHost = Host<ToFake, FromFake>;

const STDOUT = 1;
const STDERR = 2;
const CHANNEL = 3; // where the runtime puts the IPC socket
const forever = () => new Promise<void>(() => {});

/** Behaviours after the handshake. */
const BEHAVIOURS: Record<string, (host: FakeHost, arg: string) => Promise<void> | void> = {
  echo,
  stop_slowly: async (host) => {
    await echo(host);
    host.send({ type: "done", result: "saved on the way out" });
  },
  exit: (_host, code) => {
    writeSync(STDERR, "the flux capacitor broke\n");
    process.exit(Number(code));
  },
  signal: async (_host, name) => {
    process.kill(process.pid, name);
    await forever();
  },
  fail: (_host, kind) => {
    throw new WorkerError(kind as "memory", `asked to fail: ${kind}`);
  },
  throw: () => {
    setTimeout(() => {
      throw new Error("a bug in a timer");
    }, 0);
    return forever();
  },
  hang: () => {
    for (;;);
  },
  quiet: (host, ms) => {
    host.beat(Number(ms));
    const end = performance.now() + Number(ms);
    while (performance.now() < end);
    host.send({ type: "done" });
  },
  burst: (host, count) => {
    for (let i = 0; i < Number(count); i++) host.send({ type: "echo", text: `message ${i}` });
    host.send({ type: "done" });
    writeSync(STDERR, "last words\n");
  },
  mute: () => {},
  lie: async (host) => {
    host.send({ type: "echo", text: 42 } as unknown as FromFake);
    await forever();
  },
  lie_twice_ready: async (host) => {
    host.send({ type: "ready", protocol: PROTOCOL });
    await forever();
  },
  lie_garbage: async () => {
    writeSync(CHANNEL, '{"type":"echo", oh no\n');
    process.removeAllListeners("disconnect");
    await forever();
  },
  stubborn: async (host) => {
    process.removeAllListeners("SIGTERM");
    process.on("SIGTERM", () => {});
    host.send({ type: "spawned", pid: process.pid }); // from here on it ignores the signal
    await forever();
  },
  linger: async (host) => {
    host.send({ type: "done" });
    await forever();
  },
  flood_stdout: (host, megabytes) => flood(host, STDOUT, Number(megabytes)),
  flood_stderr: (host, megabytes) => flood(host, STDERR, Number(megabytes)),
  secret: (_host, key) => {
    writeSync(STDERR, `could not sign in with ${key}\n`);
    process.exit(9);
  },
  serve: async (host) => {
    const server = Bun.serve({
      unix: host.socketPath,
      fetch: async (request) => new Response(`you said ${await request.text()}`),
    });
    host.send({ type: "serving" });
    await echo(host);
    await server.stop(true);
  },
  grandchild: (host) => grandchild(host, false),
  grandchild_detached: (host) => grandchild(host, true),
  environment: async (host) => {
    const entries = readFileSync("/proc/self/environ", "utf8").split("\0").filter(Boolean);
    host.send({ type: "environment", entries });
    host.send({ type: "done" });
  },
};

/** Behaviours instead of the handshake. */
const STRANGERS: Record<string, () => Promise<void> | void> = {
  never_ready: forever,
  no_handshake: () => process.exit(0),
  lie_protocol: async () => {
    process.send?.({ type: "ready", protocol: PROTOCOL + 1 });
    await forever();
  },
  lie_early: async () => {
    process.send?.({ type: "echo", text: "before ready" });
    await forever();
  },
};

export async function runFake([name = "", arg = ""]: string[]): Promise<void> {
  const stranger = STRANGERS[name];
  if (stranger) {
    process.on("message", () => {}); // keeps the process alive, like a channel in use
    return stranger();
  }
  const behave = BEHAVIOURS[name];
  if (!behave)
    throw new UsageError(
      `Unknown behaviour of the fake worker. Use one of: ${Object.keys({ ...BEHAVIOURS, ...STRANGERS }).join(", ")}`,
    );
  await runHosted<ToFake, FromFake>(ToFake, async (host) => behave(host, arg));
}

async function echo(host: FakeHost) {
  for await (const message of host.messages) {
    if (message.type === "echo") host.send(message);
    else return host.send({ type: "done" });
  }
}

async function flood(host: FakeHost, fd: number, megabytes: number) {
  const line = Buffer.from(`${"flood ".repeat(170)}\n`);
  const chunk = Buffer.concat(Array(1024).fill(line)); // about 1 MiB
  for (let i = 0; i < megabytes; i++) {
    for (let at = 0; at < chunk.length; ) at += writeSync(fd, chunk, at);
    await new Promise(setImmediate);
  }
  writeSync(fd, "end of the flood\n");
  host.send({ type: "done" });
}

async function grandchild(host: FakeHost, detached: boolean) {
  const script = "trap '' TERM HUP INT; while :; do sleep 1; done";
  const child = Bun.spawn(["sh", "-c", script], { stdio: ["ignore", "ignore", "inherit"], detached });
  host.send({ type: "spawned", pid: child.pid });
  await echo(host);
}
