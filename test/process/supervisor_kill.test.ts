import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { marks } from "../../src/platform/workers/env.ts";
import { findMarked, killMarked } from "../../src/platform/workers/orphans.ts";
import { until } from "../harness.ts";
import { isAlive, makeSupervisor } from "./supervisor_kit.ts";

const PARENT = resolve(import.meta.dir, "../fixtures/parent.ts");

let dir: string;
let run: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "verk-sup-"));
  run = join(dir, "run");
});
afterEach(async () => {
  const left = (await findMarked(marks.dir(run))).marked;
  await killMarked(marks.dir(run));
  rmSync(dir, { recursive: true, force: true });
  expect(left).toEqual([]); // no test leaves a process behind
});

async function startParent(...behaviours: string[]) {
  mkdirSync(run, { recursive: true });
  const argv = [process.execPath, PARENT, run, ...behaviours];
  const parent = Bun.spawn(argv, { stdout: "pipe", stderr: "inherit" });
  const { value } = await parent.stdout.getReader().read();
  return { parent, pids: JSON.parse(new TextDecoder().decode(value)) as number[] };
}

test("when the server is killed its workers die too, also busy ones", async () => {
  const { parent, pids } = await startParent("echo", "hang", "stubborn", "serve");
  expect(pids.map(isAlive)).toEqual([true, true, true, true]);
  parent.kill("SIGKILL");
  await until("the end of all workers", () => !pids.some(isAlive));
});

test("the next server removes the grandchildren and sockets of a killed server", async () => {
  const { parent, pids } = await startParent("grandchild", "grandchild_detached", "serve");
  parent.kill("SIGKILL");
  await parent.exited;
  expect(await makeSupervisor(join(dir, "other")).sweep()).toBe(0); // another data directory's
  await makeSupervisor(run).sweep();
  await until("the end of all", () => !pids.some(isAlive));
  expect(readdirSync(run).filter((name) => name.endsWith(".sock"))).toEqual([]);
});
