// tier: all (checks of a release)
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { readStamp } from "../../src/platform/updates/stamp.ts";
import { build, checkoutOf } from "../release_kit.ts";

const ROOT = resolve(import.meta.dir, "../..");
mkdirSync(join(ROOT, "dist"), { recursive: true });
const temp = mkdtempSync(join(ROOT, "dist/checkout-")); // the same file system, so that packages can be links
afterAll(() => rmSync(temp, { recursive: true, force: true }));

const sha256 = (file: string) => new Bun.CryptoHasher("sha256").update(readFileSync(file)).digest("hex");

test.skipIf(Bun.which("git") === null)(
  "two builds of a commit in different folders have the same bytes",
  () => {
    const first = build(join(ROOT, "dist/verk"), [], { fast: false });
    const copy = checkoutOf(readStamp(first).commit, join(temp, "another", "checkout"));
    const second = build(join(copy, "dist/verk"), [], { root: copy, fast: false });
    expect(sha256(second)).toBe(sha256(first));
    expect(readFileSync(`${second}.cdx.json`, "utf8")).toBe(readFileSync(`${first}.cdx.json`, "utf8"));
  },
  300_000,
);
