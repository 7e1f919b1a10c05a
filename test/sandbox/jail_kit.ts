/** A small jail like that of a session, which runs the attacks of jail_attacks.c. */
import { chmodSync, chownSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { buildJail } from "../../scripts/bundle/jail.ts";
import { type JailIo, startJailed } from "../../src/sandbox/jail/jail.ts";
import { sessionMounts } from "../../src/sandbox/jail/session_root.ts";
import type { JailEnd, JailLimits, JailSpec, Mount } from "../../src/sandbox/jail/types.ts";
import { tempDir } from "../harness.ts";
import { asNobody, isRoot, NOBODY } from "./nobody.ts";

const ROOT = resolve(import.meta.dir, "../..");
export const HELPER = buildJail(ROOT);
export const ATTACK = "/attack";

export const LIMITS: JailLimits = {
  processes: 24,
  memoryBytes: 64 << 20,
  openFiles: 256,
  fileBytes: 64 << 20,
  cpuSeconds: 10,
  wallMs: 30_000,
  disk: { at: "/workspace", bytes: 16 << 20, entries: 500 },
};

export type Over = {
  limits?: Partial<JailLimits>;
  network?: JailSpec["network"];
  filter?: JailSpec["filter"];
  mounts?: readonly Mount[];
  env?: Record<string, string>;
  proxy?: string;
  io?: JailIo;
};
export type Ran = JailEnd & { stdout: string; stderr: string; lines: Record<string, string> };

/** A directory tree that the attacks must not reach, and the compiled attacks. */
export function openYard() {
  const dir = tempDir();
  chmodSync(dir, 0o755);
  const attack = join(dir, "attack");
  const flags = ["-static", "-O1", "-D_GNU_SOURCE"];
  const built = Bun.spawnSync(["gcc", ...flags, "-o", attack, join(import.meta.dir, "jail_attacks.c")]);
  if (!built.success) throw new Error(built.stderr.toString());
  let count = 0;
  const workspace = () => {
    const path = join(dir, `workspace${count++}`);
    mkdirSync(path);
    if (isRoot) chownSync(path, NOBODY, NOBODY);
    return path;
  };
  const spec = (argv: readonly string[], over: Over = {}, at = workspace()): JailSpec => {
    const network = over.network ?? "none";
    const root = sessionMounts({ workspace: at, volumes: [], network, tmpBytes: 48 << 20 });
    return {
      argv,
      env: { PATH: "/usr/bin:/bin:/usr/sbin:/sbin", HOME: "/workspace", ...over.env },
      cwd: "/workspace",
      mounts: [...root, { kind: "read_only", from: attack, to: ATTACK }, ...(over.mounts ?? [])],
      limits: { ...LIMITS, ...over.limits },
      network,
      proxy: over.proxy,
      filter: over.filter ?? "session",
    };
  };
  const run = async (argv: readonly string[], over: Over = {}, at?: string): Promise<Ran> => {
    const text = { stdout: "", stderr: "" };
    const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
    const running = startJailed({ path: HELPER }, spec(argv, over, at), {
      maxBytes: 65_536,
      onOutput: ({ stream, bytes }) => {
        text[stream] += decoders[stream].decode(bytes, { stream: true });
      },
      ...over.io,
    });
    return { ...(await running.ended), ...text, lines: linesOf(text.stdout) };
  };
  return {
    dir,
    attack,
    workspace,
    spec,
    run,
    attacked: (name: string, argument: string | number, over?: Over, at?: string) =>
      run([ATTACK, name, String(argument)], over, at),
    shell: (script: string, over?: Over, at?: string) => run(["/bin/sh", "-c", script], over, at),
  };
}
export type Yard = ReturnType<typeof openYard>;

/** Parses lines of `what: how`. */
export function linesOf(text: string): Record<string, string> {
  return Object.fromEntries(
    text
      .trim()
      .split("\n")
      .map((line) => line.split(": ") as [string, string]),
  );
}

/** Runs the same program without a jail, but not as root. */
export async function withoutJail(yard: Yard, ...args: string[]) {
  const child = Bun.spawn(asNobody([yard.attack, ...args]), { cwd: yard.workspace(), stdout: "pipe", env: {} });
  const stdout = await new Response(child.stdout).text();
  await child.exited;
  return linesOf(stdout);
}

/** Processes of this machine, in any namespace, that have `mark` among their arguments. */
export function processesWith(mark: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").includes(mark);
      } catch {
        return false;
      }
    })
    .map(Number);
}
