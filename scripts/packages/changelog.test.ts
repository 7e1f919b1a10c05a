import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { changelogSection } from "./changelog.ts";

const TEXT = `# Changelog

## Unreleased

- Soon.

## 1.10.0 (2026-11-17)

Better.

### Added

- One.

## 1.1.0

- First.
`;

test("the section of a version has its text without its heading", () => {
  expect(changelogSection(TEXT, "1.10.0")).toBe("Better.\n\n### Added\n\n- One.");
  expect(changelogSection(TEXT, "1.1.0")).toBe("- First.");
  expect(changelogSection(TEXT, "1.1")).toBeUndefined();
  expect(changelogSection(TEXT, "2.0.0")).toBeUndefined();
});

test("the versions of the changelog are there, the newest first, each with a text", () => {
  const changelog = readFileSync(resolve(import.meta.dir, "../../CHANGELOG.md"), "utf8");
  const versions = [...changelog.matchAll(/^## (\d\S*)/gm)].map(([, version = ""]) => version);
  expect(versions.length).toBeGreaterThan(2);
  expect([...versions].sort((a, b) => Bun.semver.order(b, a))).toEqual(versions);
  for (const version of versions) expect(changelogSection(changelog, version)).toContain("\n- ");
});
