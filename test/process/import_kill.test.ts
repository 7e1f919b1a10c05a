// tier: all (whole paths on the executable)
/** `kill -9` half-way through the import of a folder of 60 shards. A full run takes one of 15 GB. */
import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { GIB, MIB } from "../../src/lib/units.ts";
import { runVerk, spawnVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { writeShardedFolder } from "../sharded_folder.ts";
import { IS_FULL, sweep } from "../sweep.ts";
import { isAlive } from "./supervisor_kit.ts";

const MOST_MEMORY = 500 * MIB;

test(
  "an import that was killed half-way begins anew, needs little memory and leaves nothing",
  async () => {
    const [folder, dir] = [tempDir(), tempDir()];
    writeShardedFolder(folder, { layers: 60, hidden: sweep({ quick: 256, full: 2816 }) });
    const args = ["models", "import", folder, "--name", "big", "--data", dir];
    const half = IS_FULL ? 7 * GIB : 4 * MIB;
    try {
      const killed = spawnVerk(args, { cwd: dir });
      await until("half of the file", () => bytesUnder(join(dir, "models/.converting")) >= half, 600_000);
      const converters = childrenOf(killed.pid);
      killed.kill("SIGKILL");
      await killed.exited;
      expect(converters).not.toEqual([]);
      await until("the conversion to end", () => !converters.some(isAlive));
      expect((await runVerk(["models", "list", "--data", dir, "--json"], { cwd: dir })).json().data).toEqual([]);

      const again = spawnVerk(args, { cwd: dir });
      const peak = await peakMemory(again);
      expect([again.exitCode, await new Response(again.stdout).text()]).toEqual([0, "big\n"]);
      expect(peak).toBeLessThan(MOST_MEMORY);
      expect(peak).toBeGreaterThan(0);
      expect(readdirSync(join(dir, "models")).filter((name) => !name.startsWith("."))).toEqual(["big.gguf"]);
      expect(readdirSync(join(dir, "models/.converting"))).toEqual([]);
    } finally {
      for (const each of [folder, dir]) rmSync(each, { recursive: true, force: true });
    }
  },
  IS_FULL ? 1_800_000 : 120_000,
);

function bytesUnder(dir: string): number {
  if (!existsSync(dir)) return 0;
  const sizes = readdirSync(dir, { recursive: true, encoding: "utf8" }).map(
    (name) => statSync(join(dir, name), { throwIfNoEntry: false })?.size ?? 0,
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

function childrenOf(pid: number): number[] {
  const path = `/proc/${pid}/task/${pid}/children`;
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8")
    .trim()
    .split(" ")
    .filter((each) => each !== "")
    .map(Number);
}

/** The most bytes that the command or one of its processes held until it ended. */
async function peakMemory(child: ReturnType<typeof spawnVerk>): Promise<number> {
  let most = 0;
  while (child.exitCode === null) {
    for (const pid of [child.pid, ...childrenOf(child.pid)]) most = Math.max(most, peakOf(pid));
    await Bun.sleep(20);
  }
  return most;
}

function peakOf(pid: number): number {
  try {
    return 1024 * Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
  } catch {
    return 0; // it has ended
  }
}
