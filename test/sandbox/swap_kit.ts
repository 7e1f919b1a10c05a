/** Another process swaps two names of a directory repeatedly. */
import { resolve } from "node:path";

export type Swapper = {
  /** Runs `work` while the names are swapped. Returns the number of swaps. */
  during: (a: string, b: string, work: () => Promise<void>) => Promise<number>;
  /** Repeats `work` until the names were swapped at least `swaps` times. */
  atLeast: (swaps: number, a: string, b: string, work: () => Promise<void>) => Promise<void>;
};

/** `program` is the path for the compiled swapper. `at` is the directory of the names. */
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
