// tier: all (starts a process for each kill, 20 s)
/**
 * A server that makes machines is killed at its commits, flushes and renames and at random moments, while its commands are
 * cut too. In the end no machine is left, no lease is left, and no minute was charged twice.
 */
import { Database } from "bun:sqlite";
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { readLeases } from "../../src/platform/providers/leases.ts";
import { testCloud } from "../cloud_kit.ts";
import { tempDir } from "../harness.ts";
import { randomFor, SEED, sweep } from "../sweep.ts";

const KILLS = sweep({ quick: 10, full: 200 });
setDefaultTimeout(60_000 + KILLS * 20_000);
const LONGEST_LIFE_MS = 1_500;
const MOST_FAILPOINTS = 60;

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDTJGT8SqB+nK2gvy3X7Q75aLQjS8qPyTqxttP1aPRv2";
const RATE_USD = 3.6;
const cloud = testCloud(dir, { idle_minutes: 1, rate_usd_per_hour: RATE_USD }, `node@192.0.2.1 ${HOST_KEY}`);
const base = String(Date.now());
const draw = randomFor("clouds kills");
const below = (most: number) => Math.floor(draw() * most);

/** The commands of one life. Each may fail, be killed, or take its time, before and after it has acted. */
const FATES = ["", "", "", "sleep 0.2\n", "exit 1\n", "kill -9 $$\n", "sleep 0.4; exit 1\n"];
const fate = () => FATES[below(FATES.length)] ?? "";

function live(mode: "work" | "drain", failpoint?: string) {
  const script = join(import.meta.dir, "clouds_life.ts");
  return Bun.spawn([process.execPath, script, dir, cloud.file, base, mode], {
    stdout: "pipe",
    stderr: "pipe",
    env: { ...process.env, ...(failpoint === undefined ? {} : { VERK_FAILPOINT: failpoint }) },
  });
}

/** Ends by its failpoint, or at a random moment after its start. */
async function liveAndDie() {
  for (const name of ["before_up", "up", "down", "list"] as const) cloud.set(name, fate());
  const byFailpoint = below(2) === 0;
  const child = live("work", byFailpoint ? `*:${1 + below(MOST_FAILPOINTS)}` : undefined);
  const reader = child.stdout.getReader();
  const { value } = await reader.read(); // "ready", or the end
  const errors = new Response(child.stderr).text();
  if (value === undefined && child.signalCode !== "SIGKILL") throw new Error(await errors);
  const timer = setTimeout(() => child.kill("SIGKILL"), below(LONGEST_LIFE_MS));
  await child.exited;
  clearTimeout(timer);
  if (child.signalCode !== "SIGKILL") throw new Error(`a life ended by itself: ${await errors}`);
}

type Machine = { id: string; name: string; uptime: number; cost: number; created: number; ended: number };
type Entry = { key: string; ms: number; micros: number };

test(`no machine is left after ${KILLS} kills, and no minute is charged twice (seed ${SEED})`, async () => {
  for (let kill = 0; kill < KILLS; kill++) await liveAndDie();
  for (const name of ["before_up", "up", "down", "list"] as const) cloud.set(name, "");
  const last = live("drain");
  const output = new Response(last.stdout).text();
  const errors = new Response(last.stderr).text();
  expect([await last.exited, await output, await errors]).toEqual([0, "ready\ndrained\n", expect.any(String)]);
  expect(cloud.machines()).toEqual([]);
  expect(readLeases(dir)).toEqual([]);

  const db = new Database(join(dir, "verk.db"), { readonly: true });
  const machines = db
    .query(
      "SELECT id, name, uptime_ms AS uptime, cost_micros AS cost, created_at AS created, ended_at AS ended FROM machines",
    )
    .all() as Machine[];
  const entriesOf = (id: string) =>
    db
      .query(
        "SELECT window_key AS key, usage_ms AS ms, -amount_micros AS micros FROM ledger_entries WHERE subject_id = ? ORDER BY rowid",
      )
      .all(id) as Entry[];
  const bad: string[] = [];
  for (const { id, name, uptime, cost, created, ended } of machines) {
    let [used, paid] = [0, 0];
    for (const { key, ms, micros } of entriesOf(id)) {
      if (key !== `${id}/${used}`) bad.push(`${name}: ${key} does not follow ${used}`);
      used += ms;
      paid += micros;
    }
    if (used !== uptime || paid !== cost)
      bad.push(`${name}: ${used} ms and ${paid} are charged, not ${uptime} and ${cost}`);
    if (uptime > ended - created) bad.push(`${name}: charged for ${uptime} ms of ${ended - created}`);
    if (Math.abs(cost - (uptime * RATE_USD * 1e6) / 3_600_000) > 1) bad.push(`${name}: ${cost} for ${uptime} ms`);
  }
  const calls = cloud
    .calls()
    .filter((call) => call.startsWith("up "))
    .map((call) => call.slice(3));
  const known = new Set(machines.map(({ name }) => name));
  expect([bad, calls.filter((name) => !known.has(name)), machines.length > 0]).toEqual([[], [], true]);
  expect(new Set(calls).size).toBe(calls.length); // `up` is never called twice for one machine
  db.close();
});
