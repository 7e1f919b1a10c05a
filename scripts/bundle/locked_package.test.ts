import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { PLATFORMS } from "../../src/native/platform/index.ts";
import { lockedPackage } from "./locked_package.ts";

const LOCK = readFileSync(join(import.meta.dir, "../../bun.lock"), "utf8");

test.each(Object.values(PLATFORMS))("the lockfile pins the packages of $name by hash", ({ name }) => {
  for (const each of [`@img/sharp-${name}`, `@img/sharp-libvips-${name}`, `@node-llama-cpp/${name}`]) {
    const { spec, integrity } = lockedPackage(LOCK, each);
    expect(spec).toMatch(/@\d+\.\d+\.\d+$/);
    expect(Buffer.from(integrity.slice("sha512-".length), "base64")).toHaveLength(64);
  }
});

test("a package that is not in the lockfile is not fetched", () => {
  expect(() => lockedPackage(LOCK, "@node-llama-cpp/linux")).toThrow("bun.lock has no package @node-llama-cpp/linux");
});
