/** Runs commands on a node: with the system's ssh client, or directly if the node is this machine. */
import { unlinkSync } from "node:fs";
import { isIPv6 } from "node:net";
import { KIB, SECOND_MS } from "../../lib/units.ts";
import { ambientEnv } from "../config/config.ts";
import { tempPath, writeFileAtomicSync } from "../files.ts";
import { type Channel, type Forward, forwardArgs, openChannel } from "./channel.ts";
import { NodeError, Unreachable } from "./types.ts";

type Command = {
  argv: readonly string[];
  stdin?: Uint8Array | Blob;
  /** Takes the output as it comes; the result is then empty. Its failure ends the command. */
  to?: (output: AsyncIterable<Uint8Array>) => Promise<unknown>;
  /** More output than this ends the command: a node must not fill the memory or the disk of the server. */
  mostBytes: number;
  /** 0: no limit, for copies. A dead connection ends a copy too. */
  timeoutMs?: number;
};

export type Link = {
  run: (command: Command) => Promise<Uint8Array>;
  /** `argv` gets the path of a socket on the node, which is the one of this machine if the node is. */
  open: (command: { argv: (socket: string) => readonly string[]; forward: Forward }) => Promise<Channel>;
};

export type SshTarget = {
  /** Resolved and checked by the network guard for each command. */
  address: () => Promise<string>;
  port: number;
  user: string;
  /** Lines of a known_hosts file under the name `verk-node`. */
  knownHosts: string;
  /** The private key as the text of a key file. It is on disk only while a client starts. */
  privateKey: () => string;
  /** A private directory for key files. */
  dir: string;
};

export const HOST_ALIAS = "verk-node";
const COMMAND_MS = 60 * SECOND_MS;
/** Exit code of `verk node`: the node has an answer only later, because its scheduler is away. */
export const TRY_LATER = 75;
const UNREACHABLE = 255; // exit code of the ssh client; `verk node` never uses it
const STDERR_BYTES = 4_000;
const ERROR_BYTES = 64 * KIB;
const PLAIN = { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: "/" };

/** Quotes one argument for a POSIX shell. ssh gives its command to the login shell of the user. */
export const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

function sshArgs(target: Pick<SshTarget, "port" | "user">, address: string, files: { key: string; hosts: string }) {
  const options = {
    BatchMode: "yes",
    IdentitiesOnly: "yes",
    IdentityFile: files.key,
    IdentityAgent: "none",
    UserKnownHostsFile: files.hosts,
    GlobalKnownHostsFile: "/dev/null",
    StrictHostKeyChecking: "yes",
    HostKeyAlias: HOST_ALIAS,
    UpdateHostKeys: "no",
    CheckHostIP: "no",
    ForwardAgent: "no",
    ForwardX11: "no",
    ClearAllForwardings: "yes",
    PermitLocalCommand: "no",
    ConnectTimeout: "10",
    ServerAliveInterval: "5",
    ServerAliveCountMax: "3",
    LogLevel: "ERROR",
    AddressFamily: isIPv6(address) ? "inet6" : "inet",
  };
  const flags = Object.entries(options).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
  return ["ssh", "-F", "none", "-T", ...flags, "-p", String(target.port), "-l", target.user, "--", address];
}

export const sshLink = (target: SshTarget): Link => ({
  async run(command) {
    const address = await target.address();
    const { files, remove } = withKeyFiles(target);
    try {
      return await execute([...sshArgs(target, address, files), command.argv.map(quote).join(" ")], command);
    } finally {
      remove();
    }
  },
  async open({ argv, forward }) {
    const address = await target.address();
    const { files, remove } = withKeyFiles(target);
    const [program = "", ...options] = sshArgs(target, address, files);
    const command = argv(forward.remote).map(quote).join(" ");
    return openChannel([program, ...forwardArgs(forward), ...options, command], remove);
  },
});

/** The files that a client reads while it starts. */
function withKeyFiles({ dir, privateKey, knownHosts }: SshTarget) {
  const files = { key: tempPath(dir), hosts: tempPath(dir) };
  const remove = () => {
    for (const path of [files.key, files.hosts]) removeQuietly(path);
  };
  try {
    writeFileAtomicSync(files.key, privateKey());
    writeFileAtomicSync(files.hosts, knownHosts);
  } catch (error) {
    remove();
    throw error;
  }
  return { files, remove };
}

/** For a node that is this machine, as the login node of a cluster. */
export const directLink = (home: string): Link => ({
  run: (command) => execute(command.argv, command, home),
  open: async ({ argv, forward }) => openChannel(argv(forward.local), () => {}, { env: ownEnv(), cwd: home }),
});

const ownEnv = () => pick(ambientEnv(), "PATH", "HOME", "SLURM_CONF");

async function execute(argv: readonly string[], command: Command, cwd?: string): Promise<Uint8Array> {
  const { stdin, to, timeoutMs = COMMAND_MS, mostBytes } = command;
  const child = Bun.spawn([...argv], {
    stdin: stdin ?? "ignore",
    stdout: "pipe",
    stderr: "pipe",
    env: { ...PLAIN, ...ownEnv(), LC_ALL: "C" },
    ...(cwd === undefined ? {} : { cwd }),
    ...(timeoutMs === 0 ? {} : { timeout: timeoutMs, killSignal: "SIGKILL" as const }),
  });
  const ending = (error: unknown): never => {
    child.kill("SIGKILL");
    throw error;
  };
  const output = collect(limited(child.stdout, mostBytes), to).catch(ending);
  const errors = collect(limited(child.stderr, ERROR_BYTES)).catch(ending);
  const [bytes, error] = await Promise.all([output, errors, child.exited]);
  const said = new TextDecoder().decode(error).trim().slice(-STDERR_BYTES);
  if (child.exitCode === 0) return bytes;
  if (child.signalCode !== null) throw new Unreachable(`no answer within ${timeoutMs / SECOND_MS} s`);
  if (child.exitCode === TRY_LATER || (argv[0] === "ssh" && child.exitCode === UNREACHABLE))
    throw new Unreachable(lastLine(said) || "the connection broke");
  throw new NodeError(lastLine(said) || `a command ended with code ${child.exitCode}`);
}

async function* limited(stream: ReadableStream<Uint8Array>, most: number): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (bytes > most) throw new NodeError(`the node sent more than the ${most} bytes that this answer may have`);
    yield chunk;
  }
}

/** The whole stream, or nothing if `to` takes it. */
async function collect(stream: AsyncGenerator<Uint8Array>, to?: Command["to"]): Promise<Uint8Array> {
  if (to === undefined) return Buffer.concat(await Array.fromAsync(stream));
  await to(stream);
  return new Uint8Array();
}

function pick(env: Record<string, string | undefined>, ...names: string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
}

const lastLine = (text: string) =>
  text
    .split("\n")
    .at(-1)
    ?.replace(/^verk: /, "")
    .trim() ?? "";

function removeQuietly(path: string) {
  try {
    unlinkSync(path);
  } catch {
    // it was never written
  }
}
