import { expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { marks } from "../../src/platform/workers/env.ts";
import { findMarked } from "../../src/platform/workers/orphans.ts";
import { tempDir, until } from "../harness.ts";

const PARENT = resolve(import.meta.dir, "../fixtures/parent.ts");
const WORKERS = ["echo", "hang", "stubborn"];

test("a server killed just before or after it starts a worker leaves no worker behind", async () => {
  let kills = 0;
  for (let n = 1; ; n++) {
    const dir = tempDir();
    const run = join(dir, "run");
    const env = { PATH: process.env["PATH"] ?? "", HOME: dir, VERK_FAILPOINT: `*:${n}` };
    const argv = [process.execPath, PARENT, run, ...WORKERS];
    const parent = Bun.spawn(argv, { env, stdout: "pipe", stderr: "inherit" });
    const { value } = await parent.stdout.getReader().read(); // a line when all are up, nothing when it was killed
    const finished = value !== undefined;
    if (finished) expect((await findMarked(marks.dir(run))).marked.length).toBe(WORKERS.length);
    parent.kill("SIGKILL");
    await parent.exited;
    await until("no worker to be left", async () => (await findMarked(marks.dir(run))).marked.length === 0);
    rmSync(dir, { recursive: true, force: true });
    if (finished) break;
    kills++;
  }
  expect(kills).toBe(WORKERS.length * 2);
}, 120_000);
