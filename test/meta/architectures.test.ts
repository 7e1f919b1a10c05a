/**
 * Every difference between architectures is a field of src/native/platform; all other code is the same on all of them.
 */
import { expect, test } from "bun:test";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dir, "../..");
const PLATFORM = "src/native/platform/";
const files = [...new Bun.Glob("src/**/*").scanSync(ROOT)].filter((file) => !file.startsWith(PLATFORM)).sort();
const LITERAL = /x86_64|x86-64|aarch64|arm64|amd64|linux-x64|0xc000003e|0xc00000b7|AUDIT_ARCH_[A-Z]|process\.arch/i;

const linesWith = async (pattern: RegExp): Promise<string[]> => {
  const found: string[] = [];
  for (const file of files) {
    const lines = (await Bun.file(join(ROOT, file)).text()).split("\n");
    lines.forEach((line, i) => {
      if (pattern.test(line)) found.push(`${file}:${i + 1}: ${line.trim()}`);
    });
  }
  return found;
};

test("no file of the product names an architecture, except the platform module", async () => {
  expect(files.length).toBeGreaterThan(500);
  expect(await linesWith(LITERAL)).toEqual([]);
});

test("pages of memory have the size that the kernel reports", async () => {
  expect(await linesWith(/statm.*\b(4096|16384|65536)\b|\bPAGE_(BYTES|SIZE) = 4096\b/)).toEqual([]);
});

test("the patterns match their examples", () => {
  for (const literal of ["/lib/x86_64-linux-gnu", "linux-arm64", "0xC000003E", "AUDIT_ARCH_X86_64", "process.arch"])
    expect(LITERAL.test(literal)).toBe(true);
});
