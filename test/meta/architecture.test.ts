/** ARCHITECTURE.md is the map of the tree: it names every folder of the product, and nothing that is not there. */
import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { ROOT, read, sources } from "./imports.ts";

const map = read("ARCHITECTURE.md");
const quoted = new Set([...map.matchAll(/`([^`\n]+)`/g)].map(([, name = ""]) => name.replace(/\/$/, "")));
const isNamed = (folder: string) => [...quoted].some((name) => `/${folder}`.endsWith(`/${name}`));

test("the map names every folder that has product files", () => {
  const folders = [...new Set(sources.map((file) => dirname(file)))].filter((folder) => folder !== "src");
  expect(folders.filter((folder) => !isNamed(folder))).toEqual([]);
  expect(isNamed("src/resources/nowhere")).toBeFalse();
});

test("every file and folder that the map names exists", () => {
  const missing = [...quoted].filter((name) => name.startsWith("src/") && !existsSync(join(ROOT, name)));
  expect(missing).toEqual([]);
});

test("the map stays within three pages", () => {
  expect(map.split("\n").length).toBeLessThanOrEqual(170);
});
