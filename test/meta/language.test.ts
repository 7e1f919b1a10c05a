/** The rules of names, comments and sizes that CONTRIBUTING.md states, counted over every source file. */
import { expect, test } from "bun:test";
import { BANNED_FUNCTIONS, BANNED_TYPES, BANNED_WORDS } from "./banned_names.ts";
import { ROOT, read, sources } from "./imports.ts";

const EVERYTHING = [...new Bun.Glob("{src,test,scripts,bench,models}/**/*.{ts,tsx}").scanSync(ROOT)]
  .filter((file) => !file.endsWith(".d.ts"))
  .sort();
const LISTS = ["test/meta/banned_names.ts", "test/meta/language.test.ts", "test/meta/docs.test.ts"];

/** `file:line: text` of every match outside quoted names, in every file but the lists of banned names themselves. */
function matches(pattern: RegExp, files: readonly string[] = EVERYTHING): string[] {
  const found: string[] = [];
  for (const file of files.filter((file) => !LISTS.includes(file)))
    for (const [index, line] of read(file).split("\n").entries())
      if (pattern.test(line.replaceAll(/`[^`]*`/g, ""))) found.push(`${file}:${index + 1}: ${line.trim()}`);
  return found;
}

const names = (list: readonly { name: string }[]) => list.map(({ name }) => name).join("|");
const TYPE = new RegExp(`\\b(type|interface|class|enum) (${names(BANNED_TYPES)})\\b`);
const FUNCTION = new RegExp(`\\b(function\\*?|const|let) (${names(BANNED_FUNCTIONS)})\\b`);
const WORD = new RegExp(`(/\\*\\*|^\\s*\\*|//).*\\b(${names(BANNED_WORDS)})\\b`, "i");
const FRAGMENT = /(\/\*\*|^\s*\*) (Of|As|What|Who|Where|Whether|Which|Those)\b/;

test("the patterns match their examples", () => {
  expect("export type Asked = { id: string };").toMatch(TYPE);
  expect("export async function hear(ctx: Ctx) {").toMatch(FUNCTION);
  expect("  // whoever asks").toMatch(WORD);
  expect("/** Of every workspace so many. */").toMatch(FRAGMENT);
  expect("/** Offers of a provider. */").not.toMatch(FRAGMENT);
});

test("no type and no function has a banned name", () => {
  expect(matches(TYPE)).toEqual([]);
  expect(matches(FUNCTION)).toEqual([]);
});

test("no comment uses a banned word", () => {
  expect(matches(WORD)).toEqual([]);
});

test("no doc comment begins with a fragment", () => {
  expect(matches(FRAGMENT)).toEqual([]);
});

test("live state has an owner: nothing is registered by a request, a context or a database", () => {
  expect(matches(/\boncePer\b/, sources)).toEqual([]);
  expect(matches(/Weak(Map|Set)<(Request|Ctx|Db|Config|Supervisor)\b/, sources)).toEqual([]);
  expect(matches(/Request & \{ \[/, sources)).toEqual([]);
});
