import { existsSync } from "node:fs";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dir, "..");

/** The compiled executable where there is one, else the source under this Bun. */
export const program = (): string[] => {
  const binary = process.env["VERK_BINARY"] ?? join(ROOT, "dist/verk");
  return existsSync(binary) ? [binary] : [process.execPath, join(ROOT, "src/main.ts")];
};

export type CliOptions = {
  /** The working directory, which is the home directory too. */
  cwd: string;
  env?: Record<string, string> | undefined;
  stdin?: string | ReadableStream | undefined;
};

/** One command of `verk` in a process of its own, with nothing of this environment but PATH. */
export const spawnVerk = (args: readonly string[], { cwd, env = {}, stdin }: CliOptions) =>
  Bun.spawn([...program(), ...args], {
    env: { HOME: cwd, PATH: process.env["PATH"] ?? "", ...env },
    cwd,
    stdin: stdin === undefined ? "ignore" : typeof stdin === "string" ? new Blob([stdin]) : stdin,
    stdout: "pipe",
    stderr: "pipe",
  });

export async function runVerk(args: readonly string[], options: CliOptions) {
  const child = spawnVerk(args, options);
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the command printed
  const parse = (text: string): any => JSON.parse(text);
  const lines = () => out.trim().split("\n").map(parse);
  return { code: child.exitCode, out, err, json: () => parse(out), lines };
}

/** A key made from the command line, beside a running server or without one. */
export async function makeKey(dir: string, ...args: string[]): Promise<{ id: string; key: string }> {
  const made = await runVerk(["keys", "create", "--data", dir, "--json", ...args], { cwd: dir });
  if (made.code !== 0) throw new Error(`verk keys create: ${made.err}`);
  return made.json();
}
