import { expect, test } from "bun:test";
import { findMarked, killMarked } from "./orphans.ts";

const mark = () => `VERK_TEST_MARK=${crypto.randomUUID()}`;
const start = (marked: string, argv: string[]) => {
  const [name = "", value = ""] = marked.split("=");
  return Bun.spawn(argv, { env: { PATH: "/usr/bin:/bin", [name]: value }, detached: true });
};

test("kills every process with the mark, and none whose mark only begins the same", async () => {
  const mine = mark();
  const other = start(`${mine}0`, ["sleep", "60"]);
  const found = start(mine, ["sleep", "60"]);
  expect(await killMarked(mine)).toEqual([found.pid]);
  expect((await findMarked(mine)).marked).toEqual([]);
  expect(other.killed).toBe(false);
  expect(await killMarked(`${mine}0`)).toEqual([other.pid]);
});

test("a process is found even while it starts, before it has its environment", async () => {
  for (let i = 0; i < 50; i++) {
    const mine = mark();
    const child = start(mine, ["sh", "-c", "trap '' TERM; sleep 60"]);
    expect(await killMarked(mine)).toContain(child.pid);
    expect(await child.exited).toBe(137);
  }
});

test("a mark that no process carries quickly finds none", async () => {
  expect(await killMarked(mark())).toEqual([]);
});
