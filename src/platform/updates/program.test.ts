import { expect, test } from "bun:test";
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../test/harness.ts";
import {
  type Journal,
  nextOf,
  previousOf,
  readJournal,
  removeJournal,
  shareNext,
  swapBack,
  swapIn,
  writeJournal,
} from "./program.ts";

const JOURNAL: Journal = {
  state: "started",
  from: "0.1.0",
  to: "0.2.0",
  data_dir: "/data",
  database_version: 7,
  database_copy: null,
  at: "2026-01-01T00:00:00.000Z",
};
function installed() {
  const program = join(tempDir(), "verk");
  writeFileSync(program, "old", { mode: 0o755 });
  chmodSync(program, 0o755);
  writeFileSync(nextOf(program), "new", { mode: 0o600 });
  return program;
}
const text = (path: string) => readFileSync(path, "utf8");
const modeOf = (path: string) => statSync(path).mode & 0o777;

test("the next program comes into place, and the one before it stays", () => {
  const program = installed();
  swapIn(program);
  expect([text(program), text(previousOf(program)), existsSync(nextOf(program))]).toEqual(["new", "old", false]);
  swapBack(program);
  expect([text(program), existsSync(previousOf(program))]).toEqual(["old", false]);
  swapBack(program); // a second time changes nothing
  expect(text(program)).toBe("old");
});

test("the next program gets the mode and the owner of the program", () => {
  const program = installed();
  shareNext(program);
  const [mine, next] = [statSync(program), statSync(nextOf(program))];
  expect([modeOf(nextOf(program)), next.uid, next.gid]).toEqual([0o755, mine.uid, mine.gid]);
});

test("a program that cannot be replaced says so", () => {
  const program = join(tempDir(), "missing");
  expect(() => swapIn(program)).toThrow("replace");
});

test("everybody may read the journal, and it is removed without an error", async () => {
  const program = installed();
  expect(await readJournal(program)).toBeUndefined();
  writeJournal(program, JOURNAL);
  expect([await readJournal(program), modeOf(`${program}.upgrade.json`)]).toEqual([JOURNAL, 0o644]);
  removeJournal(program);
  removeJournal(program);
  expect(await readJournal(program)).toBeUndefined();
});
