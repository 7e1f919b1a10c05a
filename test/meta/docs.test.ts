import { afterAll, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { SETTINGS } from "../../src/platform/config/schema.ts";
import { tomlValue } from "../../src/platform/config/toml.ts";
import { leaves } from "../../src/platform/config/walk.ts";
import { someSealed } from "../../src/platform/db/sealed.ts";
import { manyApps } from "../harness.ts";
import { BANNED_FUNCTIONS, BANNED_TYPES, BANNED_WORDS, type BannedName } from "./banned_names.ts";

const ROOT = resolve(import.meta.dir, "../..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const inFolder = (folder: string) =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith(".md"))
    .map((name) => join(folder, name));
const PAGES = [
  ...inFolder("."),
  ...inFolder("docs"),
  ...inFolder("docs/adr"),
  ...inFolder("models/detector"),
  ...inFolder("models/verk-tiny"),
];
/** Pages in plain English. log.md and the decisions are records of their time. */
const PLAIN = ["README.md", "CONTRIBUTING.md", ...inFolder("docs").filter((page) => page !== "docs/log.md")];

/** The text of a page without code blocks. */
const prose = (text: string) => text.replace(/^```[\s\S]*?^```$/gm, "");

/** The anchor that GitHub gives a heading. */
const anchorOf = (heading: string) =>
  heading
    .replace(/`|\[|\]\([^)]*\)/g, "")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replace(/\s/g, "-");
const anchorsOf = (text: string) => [...prose(text).matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) => anchorOf(title));

test("every link of a page leads to a file, and to a heading of it", () => {
  const broken: string[] = [];
  for (const page of PAGES) {
    const text = read(page);
    for (const [, target = ""] of prose(text).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      const [path = "", anchor] = target.split("#");
      const file = path === "" ? page : join(dirname(page), path);
      if (!existsSync(join(ROOT, file))) broken.push(`${page}: ${target}: no such file`);
      else if (anchor !== undefined && !anchorsOf(read(file)).includes(anchor))
        broken.push(`${page}: ${target}: no such heading`);
    }
  }
  expect(broken).toEqual([]);
});

test("every path that CONTRIBUTING.md and the invariants name exists", () => {
  const EXAMPLES = /reports|gopher|NAME/;
  const named = (read("CONTRIBUTING.md") + read("docs/invariants.md")).matchAll(
    /`((?:src|test|scripts|bench|docs)\/[\w./-]+)`/g,
  );
  const missing = [...named].map(([, path = ""]) => path).filter((path) => !existsSync(join(ROOT, path)));
  expect(missing.filter((path) => !EXAMPLES.test(path))).toEqual([]);
});

test("docs/settings.md has every setting with its default, and no other", () => {
  const rows = [...read("docs/settings.md").matchAll(/^\| `([a-z\d_.]+)` \| `([^`]*)` \| \S/gm)];
  const documented = rows.map(([, name, value]) => `${name} = ${value}`).sort();
  const settings = leaves(SETTINGS).map(({ path, fallback }) => `${path} = ${tomlValue(fallback)}`);
  expect(documented).toEqual(settings.sort());
});

test("the README is short; its first lines name the dashboard, and its first screen has a picture and both commands", () => {
  const lines = read("README.md").split("\n");
  expect(lines.length).toBeLessThanOrEqual(200);
  const first = lines.slice(0, 30).join("\n");
  for (const part of ["docs/pictures/run.png", "./install.sh demo", "./scripts/test"]) expect(first).toContain(part);
  expect(lines.slice(2, 5).join("\n")).toContain("dashboard");
});

test("F29 docs: the picture, the batch body and the exit codes are those of the program", () => {
  expect(read("docs/pieces.svg")).not.toContain("on the way");
  expect(read("docs/detection.md")).toContain('{"images": [');
  const [, codes = ""] = /^RestartPreventExitStatus=(.+)$/m.exec(read("config/verk.service")) ?? [];
  const named = codes
    .split(" ")
    .join(", ")
    .replace(/, (\d+)$/, " and $1");
  expect(read("docs/install.md").replaceAll("\n", " ")).toContain(`exit codes ${named}`);
  expect(read("src/dashboard/reference/guide.tsx")).toContain("events oldest first");
  expect(PLAIN.filter((page) => /[\s"`]\/metrics\b/.test(read(page)))).toEqual([]);
});

test("the tables of banned names in CONTRIBUTING.md are those of banned_names.ts", () => {
  const section = /^## Banned names\n([\s\S]*?)^## /m.exec(read("CONTRIBUTING.md"))?.[1] ?? "";
  const rows = [...section.matchAll(/^\| `([^`]+)` \| (.+) \|$/gm)].map(([, name, use]) => ({ name, use }));
  expect(rows as BannedName[]).toEqual([...BANNED_TYPES, ...BANNED_FUNCTIONS, ...BANNED_WORDS]);
});

test("no page uses a banned word", () => {
  const words = new RegExp(`\\b(${BANNED_WORDS.map(({ name }) => name).join("|")})\\b`, "i");
  const used = PLAIN.flatMap((page) =>
    prose(read(page))
      .replace(/`[^`\n]*`/g, "") // inline code
      .split("\n")
      .filter((line) => words.test(line))
      .map((line) => `${page}: ${line}`),
  );
  expect(used).toEqual([]);
});

const { open, closeAll } = manyApps();
afterAll(closeAll);

test("the commands for a lost master key remove everything that it sealed", async () => {
  const sql = /<<'SQL'\n([\s\S]*?)^SQL$/m.exec(read("docs/troubleshooting.md"))?.[1] ?? "";
  const app = open();
  await app.call("PUT", "/v1/secrets/TOKEN", { value: "hidden" });
  await app.call("POST", "/v1/webhooks", { url: "https://hooks.example.com/a" });
  const { $client } = app.ctx.db;
  expect(someSealed($client)).toBeDefined();
  $client.exec(sql);
  expect(someSealed($client)).toBeUndefined();
  expect((await app.call("GET", "/v1/webhooks")).body.data).toEqual([]);
});
