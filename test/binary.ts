import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isServicePath } from "../src/http/answer/service_errors.ts";
import { type CliOptions, makeKey, program, runVerk } from "./cli.ts";
import { type Answer, tempDir, until } from "./harness.ts";
import { ARMED, noteLongTurns } from "./long_turns.ts";

type BinaryOptions = {
  dir?: string;
  args?: string[];
  env?: Record<string, string>;
  prefix?: string[];
  /** Another executable than that of the last build. */
  binary?: string | undefined;
  /** The same address again after a restart; by default a free port. */
  listen?: string;
  /** A key that was made before; without it the first `call` or `apiKey` makes one. */
  key?: string;
};

/** `verk serve` as a real process on a free port, in an empty environment and an empty working directory. */
export async function startBinary({ dir = tempDir(), args = [], env = {}, prefix = [], ...given }: BinaryOptions = {}) {
  const { listen = "127.0.0.1:0", binary } = given;
  const child = Bun.spawn(
    [...prefix, ...(binary ? [binary] : program()), "serve", "--data", dir, "--listen", listen, ...args],
    {
      env: { HOME: dir, PATH: process.env["PATH"] ?? "", ...ARMED, ...env },
      cwd: dir,
      stdout: "pipe",
      stderr: "pipe",
    },
  );
  const labels = new Set<string>();
  let stderr = "";
  const reading = (async () => {
    for await (const chunk of child.stderr) {
      const seen = stderr.lastIndexOf("\n") + 1;
      stderr += new TextDecoder().decode(chunk);
      for (const line of stderr.slice(seen).split("\n").slice(0, -1)) noteLongTurns(line, labels);
    }
  })();
  const ready = until("the server to listen", async () => {
    if (child.exitCode !== null || child.signalCode !== null) throw new Stopped(stderr);
    const holder = JSON.parse(readFileSync(join(dir, "server.json"), "utf8")) as { pid: number; listen: string | null };
    const url = holder.listen === null ? undefined : `http://${holder.listen}`;
    return url !== undefined && (await fetch(`${url}/readyz`)).ok ? url : undefined;
  });
  const exited = child.exited.then(async () => {
    await reading;
    return { code: child.exitCode, signal: child.signalCode, stderr };
  });
  const url = await Promise.race([ready, exited.then(({ stderr }) => Promise.reject(new Stopped(stderr)))]);
  let made = given.key;
  const apiKey = async () => (made ??= (await makeKey(dir)).key);
  return {
    url,
    dir,
    child,
    exited,
    pid: child.pid,
    apiKey,
    /** A command beside this server, which finds it by its data directory. */
    verk: (args: readonly string[], options: Partial<CliOptions> = {}) =>
      runVerk(args, { cwd: dir, ...options, env: { VERK_DATA: dir, ...options.env } }),
    call: async (method: string, path: string, body?: unknown) =>
      await callOver(url + path, method, await apiKey(), body),
    stderr: () => stderr,
    async kill(signal: NodeJS.Signals = "SIGKILL") {
      child.kill(signal);
      return await exited;
    },
  };
}

/** Sends a form, text or bytes as they are, and all else as JSON. */
async function callOver(url: string, method: string, key: string, body: unknown): Promise<Answer & { text: string }> {
  const isRaw = body instanceof FormData || body instanceof Uint8Array || typeof body === "string";
  const headers = {
    ...(isServicePath(new URL(url).pathname) ? { "x-api-key": key } : { authorization: `Bearer ${key}` }),
    ...(isRaw || body === undefined ? {} : { "content-type": "application/json" }),
  };
  const sent = isRaw ? (body as BodyInit) : JSON.stringify(body);
  const response = await fetch(url, { method, headers, ...(body === undefined ? {} : { body: sent }) });
  const text = await response.text();
  const isJson = text !== "" && response.headers.get("content-type")?.startsWith("application/json");
  return { status: response.status, body: isJson ? JSON.parse(text) : text, text, headers: response.headers };
}

export class Stopped extends Error {
  constructor(readonly stderr: string) {
    super(`the server stopped:\n${stderr}`);
  }
}

/** The file of the model that comes with Verk is checked after a first start. */
export async function untilTinyIsReady(url: string, key: string) {
  const read = () => fetch(`${url}/v1/models/verk-tiny`, { headers: { authorization: `Bearer ${key}` } });
  await until(
    "verk-tiny to be ready",
    async () => ((await (await read()).json()) as { status: string }).status === "ready",
  );
}
