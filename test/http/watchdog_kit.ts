/** A server in a process of its own, an attacker, and another client that says how long it had to wait for answers. */
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import type { Watch } from "./pinger.ts";

/**
 * How long the server's main thread may work between two answers to another client, in time of the processor: on a busy
 * machine the clock would also count what others do. A tenth of it is usual; an attack that works takes many times more.
 */
export const MOST_CPU_MS = 1_000;

export type Guarded = Awaited<ReturnType<typeof guardedServer>>;

export async function guardedServer(env: Record<string, string> = {}) {
  const server = await startBinary({ env: { VERK_HTTP__RATE_LIMIT_PER_SECOND: "0", ...env } });
  const { key } = await makeKey(server.dir, "--scope", "admin");
  const pinger = Bun.spawn([process.execPath, join(import.meta.dir, "pinger.ts"), server.url, String(server.pid)], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "inherit",
  });
  const lines = linesOf(pinger.stdout);
  return {
    url: server.url,
    key,
    async send(method: string, path: string, body: BodyInit, more: Record<string, string> = {}) {
      const headers = { authorization: `Bearer ${key}`, "x-api-key": key, "content-type": "application/json", ...more };
      const response = await fetch(`${server.url}${path}`, { method, headers, body });
      return { status: response.status, text: await response.text() };
    },
    /** Measurements of the other client since the last call. */
    async watched(): Promise<Watch> {
      pinger.stdin.write("\n");
      await pinger.stdin.flush();
      return JSON.parse((await lines.next()).value ?? "null");
    },
    async close() {
      pinger.kill();
      await server.kill();
    },
  };
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let text = "";
  for await (const chunk of stream) {
    text += new TextDecoder().decode(chunk);
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n")) {
      yield text.slice(0, end);
      text = text.slice(end + 1);
    }
  }
}
