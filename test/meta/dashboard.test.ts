/** Rules of the browser's code that keep text from becoming markup or code. */
import { expect, test } from "bun:test";
import { isGroup } from "../../src/cli/args.ts";
import { COMMANDS } from "../../src/cli/command_table.ts";
import { PAGES } from "../../src/dashboard/pages/pages.ts";
import { GROUPS } from "../../src/dashboard/pages/spec.ts";
import { read, sources } from "./imports.ts";

const files = sources.filter((file) => file.startsWith("src/dashboard/"));
const uses = (pattern: RegExp) => files.filter((file) => pattern.test(read(file)));

test("no page turns text into markup or code: text of users is only ever a text node", () => {
  const markup =
    /dangerouslySetInnerHTML|\b(inner|outer)HTML\b|insertAdjacentHTML|document\.write\b|createContextualFragment|DOMParser|srcdoc/i;
  expect(uses(markup)).toEqual([]);
  expect(uses(/\beval\(|new Function\(|javascript:/)).toEqual([]);
  expect("<b dangerouslySetInnerHTML={{ __html: name }} />").toMatch(markup);
});

test("only the theme and choices about the look of pages are kept in the browser's storage", () => {
  expect(uses(/\b(localStorage|sessionStorage|indexedDB)\b/)).toEqual([
    "src/dashboard/data/kept.ts",
    "src/dashboard/shell/theme.ts",
  ]);
});

test("no page names another host", () => {
  const namespace = "(?!www\\.w3\\.org/2000/svg)"; // of a saved picture; nothing is loaded from there
  expect(uses(new RegExp(`["'\`](https?:)?//${namespace}[a-z]`))).toEqual([]);
});

test("addresses of pages are unique, and every group of the navigation is known", () => {
  const paths = PAGES.map(({ path }) => path);
  expect(new Set(paths).size).toBe(paths.length);
  const jumps = PAGES.flatMap(({ jump }) => jump ?? []);
  expect(new Set(jumps).size).toBe(jumps.length);
  for (const { nav } of PAGES) if (nav) expect(GROUPS).toContain(nav.group);
});

test("every command that a page shows exists, with its flags", async () => {
  const shown = files.flatMap((file) =>
    [...read(file).matchAll(/["'`](verk [a-z][^"'`]*)/g)].map(([, text = ""]) => text),
  );
  expect(shown.length).toBeGreaterThan(10);
  const unknown: string[] = [];
  for (const text of new Set(shown)) {
    const [, name = "", ...rest] = text
      .replace(/\$\{.*?\}/g, "x")
      .trim()
      .split(/\s+/);
    const entry = await COMMANDS.find((row) => row.name === name)?.load();
    const isOfGroup = entry !== undefined && isGroup(entry);
    const spec = isOfGroup ? entry.subcommands[rest[0] ?? ""] : entry;
    const flags = rest.filter((word) => word.startsWith("--")).map((word) => word.slice(2));
    if (isOfGroup && rest[0] === "--help") continue;
    if (!spec || isGroup(spec) || flags.some((flag) => flag !== "help" && !(flag in spec.flags))) unknown.push(text);
  }
  expect(unknown).toEqual([]);
});
