/**
 * Runs the commands of a cloud: text of the operator's file, in a shell, with the environment of the server but not its
 * settings. They are not in a sandbox. Every process of a command carries two marks in its environment, so that none
 * outlives its time limit, nor the server that started it.
 */
import { randomBytes } from "node:crypto";
import { dirname } from "node:path";
import type { Ctx } from "../../../context.ts";
import { SERVING_BYTES, type Sent } from "../../../lib/json/outside.ts";
import { createTail } from "../../../lib/text/tail.ts";
import { KIB, MINUTE_MS, SECOND_MS } from "../../../lib/units.ts";
import type { Cloud } from "../../../platform/config/cloud.ts";
import { ambientEnv } from "../../../platform/config/config.ts";
import { counter } from "../../../platform/metrics.ts";
import { readUpTo } from "../../../platform/network/answer_body.ts";
import { serverId } from "../../../platform/providers/leases.ts";
import { killMarked } from "../../../platform/workers/orphans.ts";
import { publicKey, publicKeyFile } from "./key.ts";

export type CommandName = "up" | "down" | "list";

/** A command of the operator failed. The message is for the operator and the owner of the work. */
export class CommandError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "CommandError";
  }
}

const failures = counter("verk_cloud_command_failures_total", "Commands of clouds that failed, by cloud and command", [
  "cloud",
  "command",
]);
const ERROR_BYTES = 4 * KIB;
const REASON_CHARACTERS = 300;
/** A process that a command left in the background may keep the output open. */
const LATE_MS = SECOND_MS;

type Call = { cloud: Cloud; command: CommandName; machine?: string; signal?: AbortSignal };

/** The output. Throws CommandError. */
export async function runCommand(ctx: Ctx, call: Call): Promise<Sent> {
  try {
    return await run(ctx, call);
  } catch (error) {
    const { cloud, command, machine } = call;
    failures.add(ctx.db, "", [cloud.name, command]);
    ctx.log.warn("a command of a cloud failed", { cloud: cloud.name, command, machine, error });
    throw error;
  }
}

async function run({ config }: Ctx, { cloud, command, machine = "", signal }: Call): Promise<Sent> {
  const { data_dir: dataDir } = config;
  const mark = randomBytes(8).toString("hex");
  const minutes = command === "up" ? cloud.up_minutes : cloud.down_minutes;
  const child = Bun.spawn(["/bin/sh", "-c", cloud[command]], {
    cwd: dirname(cloud.file),
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    env: {
      ...withoutSettings(ambientEnv()),
      VERK_MACHINE: machine,
      VERK_CLOUD: cloud.name,
      VERK_GPU_TYPE: cloud.gpu_type,
      VERK_GPU_COUNT: String(cloud.gpu_count),
      VERK_SSH_PUBLIC_KEY: publicKey(dataDir),
      VERK_SSH_PUBLIC_KEY_FILE: publicKeyFile(dataDir),
      [SERVER_MARK]: serverId(dataDir),
      [COMMAND_MARK]: mark,
    },
  });
  let why = "";
  const end = (reason: string) => {
    if (why === "") why = reason;
    child.kill("SIGKILL");
    void killMarked(`${COMMAND_MARK}=${mark}`);
  };
  const timer = setTimeout(() => end(`it did not end within ${minutes} minutes`), minutes * MINUTE_MS);
  const stop = () => end("the server is stopping");
  signal?.addEventListener("abort", stop, { once: true });
  if (signal?.aborted) stop();
  try {
    const errors = tailOf(child.stderr);
    const cut = new AbortController();
    const parts: Uint8Array[] = [];
    const output = readUpTo(new Response(child.stdout), SERVING_BYTES, cut.signal, parts).catch(() => ({
      body: Buffer.concat(parts),
      truncated: false,
    }));
    const code = await child.exited;
    setTimeout(() => cut.abort(), LATE_MS).unref();
    const sent = await output;
    if (why === "" && code === 0) return sent;
    const said =
      (await Promise.race([errors, Bun.sleep(LATE_MS).then(() => "")]))
        .trim()
        .split("\n")
        .at(-1)
        ?.slice(0, REASON_CHARACTERS) ?? "";
    const reason = why || said || `it ended with code ${code}`;
    throw new CommandError(`The command \`${command}\` of the cloud ${cloud.name} failed: ${reason}`);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }
}

const SERVER_MARK = "VERK_COMMAND_OF";
const COMMAND_MARK = "VERK_COMMAND_ID";

/** Ends commands that an earlier process of this server left: a late `up` would make a machine without a lease. */
export const killLeftCommands = (dataDir: string) => killMarked(`${SERVER_MARK}=${serverId(dataDir)}`);

/** Settings of the server may be secrets, which are not the cloud's. */
const withoutSettings = (env: Record<string, string | undefined>) =>
  Object.fromEntries(Object.entries(env).filter(([name, value]) => !name.startsWith("VERK_") && value !== undefined));

async function tailOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  const tail = createTail(ERROR_BYTES);
  for await (const chunk of stream) tail.push(chunk);
  return tail.text();
}
