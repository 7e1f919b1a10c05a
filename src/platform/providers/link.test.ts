import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../test/harness.ts";
import { UNCOUNTED, writeTemp } from "../files.ts";
import { directLink } from "./link.ts";
import { NodeError, Unreachable } from "./types.ts";

const dir = tempDir();
const link = directLink(dir);
const shell = (script: string, more: object = {}) =>
  link.run({ mostBytes: 1_000, argv: ["sh", "-c", script], ...more });
const into = (name: string) => (output: AsyncIterable<Uint8Array>) =>
  writeTemp(join(dir, name), output, { meter: UNCOUNTED });
const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: Error) => error,
  );

test("output comes back whole, or goes to a file", async () => {
  expect(new TextDecoder().decode(await shell("cat", { stdin: new TextEncoder().encode("hello") }))).toBe("hello");
  const to = into("out");
  expect(await shell("head -c 300000 /dev/zero; echo end", { to, mostBytes: 300_004 })).toHaveLength(0);
  const text = readFileSync(join(dir, "out"), "utf8");
  expect([text.length, text.slice(-4)]).toEqual([300_004, "end\n"]);
});

test("a node that prints without end is cut off, on both streams", async () => {
  for (const script of ["yes", "yes >&2"]) {
    const error = await failure(shell(script, { mostBytes: 1000 }));
    expect(error).toBeInstanceOf(NodeError);
    expect(error?.message).toMatch(/^the node sent more than the (1000|65536) bytes that this answer may have$/);
  }
  expect(await failure(shell("yes", { to: into("long"), mostBytes: 1000 }))).toBeInstanceOf(NodeError);
  expect(readFileSync(join(dir, "long")).length).toBeLessThanOrEqual(1000);
});

test("a failed command says its last line, and a silent one is unreachable", async () => {
  const failed = await failure(shell("echo first >&2; echo verk: no room >&2; exit 3"));
  expect(failed).toBeInstanceOf(NodeError);
  expect(failed?.message).toBe("no room");
  expect(await failure(shell("exec sleep 60", { timeoutMs: 200 }))).toBeInstanceOf(Unreachable);
});
