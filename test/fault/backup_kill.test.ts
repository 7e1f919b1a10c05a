import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { openRandom, seedOf } from "../../src/lib/random.ts";
import { tempDir } from "../harness.ts";
import { IS_FULL, SEED, seedFor, sweep } from "../sweep.ts";
import { openWorld } from "./backup_world.ts";

const BACKUPS = sweep({ quick: 3, full: 1_000 });
/** The sweep ends with its faults if every backup fails. */
const MOST_ATTEMPTS = 4 * BACKUPS;
/** Then a new server with an empty data directory: restoring stays cheap. */
const BACKUPS_OF_A_WORLD = 100;
/** Most attempts end well, so that the sweep ends soon. */
const FATES: readonly string[] = [...Array(6).fill("none"), "kill", "kill", "kill", "failpoint", "server"];
const root = tempDir();
afterAll(() => rmSync(root, { recursive: true, force: true }));

/**
 * Attempts go on until so many backups exist. Each attempt has a seed of its own, which draws its fate and moment. A
 * fault does not end the sweep: the list of faults at its end names the seeds.
 */
test(`${BACKUPS} backups under load with kills: each one is complete, and the log loses nothing (seed ${SEED})`, async () => {
  const faults: string[] = [];
  const count = { attempts: 0, made: 0, killed: 0, servers: 0, logStates: 0, rows: 0 };
  const say = (line: string) => IS_FULL && console.error(line);
  let typicalMs = 600;
  const goesOn = () => count.made < BACKUPS && count.attempts < MOST_ATTEMPTS;
  while (goesOn()) {
    const worldBelow = belowOf(seedOf(seedFor("load of backups"), count.attempts));
    const world = await openWorld(join(root, `world-${count.attempts}`), worldBelow);
    const seen = new Set<string>();
    try {
      while (goesOn() && seen.size < BACKUPS_OF_A_WORLD) {
        const seed = seedOf(seedFor("backups under load"), count.attempts++);
        const below = belowOf(seed);
        const fate = FATES[below(FATES.length)];
        const begun = performance.now();
        const child = world.backUp(fate === "failpoint" ? { VERK_FAILPOINT: `*:${1 + below(30)}` } : {});
        const found: string[] = [];
        if (fate === "kill" || fate === "server") await Bun.sleep(below(typicalMs * 1.2)); // a random moment of its work
        if (fate === "kill") child.kill("SIGKILL");
        if (fate === "server") {
          found.push(...(await world.faultsOfLog(await world.killServer())));
          count.logStates++;
          await world.startServer();
          count.servers++;
        }
        const [code, errors] = [await child.exited, await new Response(child.stderr).text()];
        if (fate === "none") typicalMs = performance.now() - begun;
        if (child.signalCode === "SIGKILL") count.killed++;
        else if (code !== 0) found.push(`verk backup create ended with ${code}: ${errors}`);
        for (const id of await world.repository.list()) {
          if (seen.has(id)) continue;
          seen.add(id);
          count.made++;
          found.push(...(await world.faultsOf(id)));
        }
        faults.push(...found.map((fault) => `seed ${seed}: ${fault}`));
        say(`backup ${count.made}, seed ${seed}, ${fate}: ${found.join("; ") || "ok"}`);
      }
    } finally {
      count.rows += world.rows();
      await world.close();
    }
  }
  console.error(`backups: ${JSON.stringify(count)}`);
  expect(faults).toEqual([]);
  expect(count.made).toBeGreaterThanOrEqual(BACKUPS);
  expect(count.rows).toBeGreaterThan(0);
}, 14_400_000);

const belowOf = (seed: number) => {
  const random = openRandom(seed);
  return (n: number) => Math.floor(random() * n);
};
