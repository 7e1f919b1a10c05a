import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { startsOf } from "../fake_starts.ts";
import { tempDir } from "../harness.ts";

test("a start counts once its line is complete", () => {
  const script = join(tempDir(), "script");
  expect(startsOf(script)).toEqual([]);
  for (const [text, starts] of [
    ["", []],
    ["41", []],
    ["41\n", [41]],
    ["41\n4", [41]],
    ["41\n42\n", [41, 42]],
  ] as const) {
    writeFileSync(`${script}.starts`, text);
    expect(startsOf(script)).toEqual([...starts]);
  }
});

test("a signal to all processes is refused here", () => {
  for (const pid of [0, -1, 1, Number("nobody")]) expect(() => process.kill(pid, "SIGKILL")).toThrow("no process");
});
