/** Two names of a directory that another process swaps, again and again. */
import { resolve } from "node:path";

export type Swapper = {
  /** Does `work` while the names are swapped. Gives how often they were. */
  during: (a: string, b: string, work: () => Promise<void>) => Promise<number>;
  /** The same, again and again, until they were swapped at least `swaps` times. */
  atLeast: (swaps: number, a: string, b: string, work: () => Promise<void>) => Promise<void>;
};

/** `program`: where the compiled swapper goes. `at`: the directory of the names. */
export function openSwapper(program: string, at: string): Swapper {
  const source = resolve(import.meta.dir, "swapper.c");
  const built = Bun.spawnSync(["gcc", "-O2", "-Wall", "-o", program, source]);
  if (!built.success) throw new Error(`gcc: ${built.stderr}`);
  async function during(a: string, b: string, work: () => Promise<void>): Promise<number> {
    const child = Bun.spawn([program, at, a, b], { stdout: "pipe", timeout: 300_000, killSignal: "SIGKILL" });
    const reader = child.stdout.getReader();
    let said = new TextDecoder().decode((await reader.read()).value);
    try {
      await work();
    } finally {
      child.kill("SIGTERM");
    }
    for (let next = await reader.read(); !next.done; next = await reader.read())
      said += new TextDecoder().decode(next.value);
    await child.exited;
    return Number(said.trim().split("\n").at(-1));
  }
  return {
    during,
    async atLeast(swaps, a, b, work) {
      for (let done = 0; done <= swaps; ) done += await during(a, b, work);
    },
  };
}
