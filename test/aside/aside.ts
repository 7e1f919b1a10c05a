import { join } from "node:path";

/**
 * Runs a program of this folder in a process of its own: what memory something takes cannot be seen among the garbage
 * of a thousand tests. It prints what it found as JSON; see `growth` for how it measures.
 */
export async function aside<T>(program: string, input: Uint8Array | string = ""): Promise<T> {
  const stdin = typeof input === "string" ? new TextEncoder().encode(input) : input;
  const argv = [process.execPath, join(import.meta.dir, `${program}.ts`)];
  const child = Bun.spawn(argv, { stdin, stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) !== 0) throw new Error(`${program} failed:\n${err}`);
  return JSON.parse(out) as T;
}
