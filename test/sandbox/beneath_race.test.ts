import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  closeSync,
  mkdirSync,
  readFileSync,
  readSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { AppError } from "../../src/lib/errors.ts";
import { type Beneath, openBeneath } from "../../src/sandbox/files/beneath.ts";
import { tempDir } from "../harness.ts";
import { sweep } from "../sweep.ts";
import { openSwapper, type Swapper } from "./swap_kit.ts";

const SWAPS = sweep({ quick: 2_000, full: 20_000 });
const dir = realpathSync(tempDir());
const workspace = join(dir, "root/workspace");
let swapper: Swapper;
let beneath: Beneath;

beforeAll(() => {
  swapper = openSwapper(join(dir, "swapper"), workspace);
  mkdirSync(join(dir, "outside"));
  writeFileSync(join(dir, "outside/file"), "OUTSIDE");
  writeFileSync(join(dir, "outside/more"), "OUTSIDE");
  mkdirSync(join(workspace, "dir"), { recursive: true });
  writeFileSync(join(workspace, "dir/file"), "inside");
  writeFileSync(join(workspace, "leaf"), "inside");
  symlinkSync(join(dir, "outside"), join(workspace, "evil_dir"));
  symlinkSync("../../outside/file", join(workspace, "evil_leaf"));
  beneath = openBeneath(join(dir, "root"));
});
afterAll(() => {
  beneath.close();
  rmSync(dir, { recursive: true, force: true });
});

const buffer = Buffer.alloc(64);
function readBeneath(path: string): string {
  const { fd } = beneath.openFile(path);
  try {
    return buffer.toString("utf8", 0, readSync(fd, buffer, 0, buffer.length, 0));
  } finally {
    closeSync(fd);
  }
}

/** Counts what each try gives. */
async function outcomes(counts: Record<string, number>, attempt: () => string | Promise<string>) {
  for (let i = 0; i < SWAPS; i++) {
    let outcome: string;
    try {
      outcome = await attempt();
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      outcome = error.code;
    }
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  }
}

const onlyRefusals = (counts: Record<string, number>, good: string) =>
  expect(
    Object.keys(counts).filter((outcome) => ![good, "path_outside_workspace", "resource_not_found"].includes(outcome)),
  ).toEqual([]);

test(`a file that becomes a link out of the workspace and back, ${SWAPS} times, is never read through`, async () => {
  const counts: Record<string, number> = {};
  await swapper.atLeast(SWAPS, "leaf", "evil_leaf", () => outcomes(counts, () => readBeneath("/workspace/leaf")));
  onlyRefusals(counts, "inside");
  expect(counts["inside"]).toBeGreaterThan(0);
  expect(counts["path_outside_workspace"]).toBeGreaterThan(0);
}, 300_000);

test("a directory that becomes such a link is never listed or read through, also by way of ..", async () => {
  const listed: Record<string, number> = {};
  const read: Record<string, number> = {};
  await swapper.atLeast(SWAPS, "dir", "evil_dir", async () => {
    await outcomes(listed, async () => {
      const { path, entries } = await beneath.list("/workspace/dir");
      return path.startsWith("/workspace/") && entries.map(({ name }) => name).join() === "file" ? "inside" : path;
    });
    await outcomes(read, () => readBeneath("/workspace/dir/../dir/file"));
  });
  for (const counts of [listed, read]) {
    onlyRefusals(counts, "inside");
    expect(counts["inside"]).toBeGreaterThan(0);
  }
}, 300_000);

test("under the same swaps, a check before the open does escape", async () => {
  let escaped = 0;
  await swapper.during("leaf", "evil_leaf", async () => {
    const end = performance.now() + 240_000;
    while (escaped === 0 && performance.now() < end) {
      try {
        if (!realpathSync(join(workspace, "leaf")).startsWith(`${workspace}/`)) continue;
        if (readFileSync(join(workspace, "leaf"), "utf8") === "OUTSIDE") escaped++;
      } catch {
        // it was a link to nowhere at that moment
      }
    }
  });
  expect(escaped).toBe(1);
}, 300_000);
