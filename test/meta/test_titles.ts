import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./imports.ts";

const TITLE = /(?:test|describe|it)(?:\.[\w.]+(?:\([\s\S]{0,3000}?\))?)?\(\s*(["'`])((?:\\.|(?!\1)[\s\S])*)\1/g;

/** The titles of all tests, as they stand in the source. */
export function testTitles(): { path: string; title: string }[] {
  const paths = [...new Bun.Glob("{src,test,scripts,models}/**/*.test.ts").scanSync(ROOT)].sort();
  return paths.flatMap((path) =>
    [...readFileSync(join(ROOT, path), "utf8").matchAll(TITLE)].map((found) => ({ path, title: found[2] ?? "" })),
  );
}
