/**
 * bun scripts/conformance.ts FILE: walks the table "Rows that are not a plain yes" of a conformance review (Markdown) and
 * lists for each row the tests that hold it now. Exits 1 if a row has no answer, or a test that it names does not exist.
 */
import { readFileSync } from "node:fs";
import { CONFORMANCE_ROWS } from "../test/meta/conformance_rows.ts";
import { testTitles } from "../test/meta/test_titles.ts";

const file = process.argv[2];
if (file === undefined) {
  console.error("usage: bun scripts/conformance.ts FILE");
  process.exit(2);
}
const table = readFileSync(file, "utf8").split("\n## Rows that are not a plain yes")[1]?.split("\n## ")[0] ?? "";
const rows = table.split("\n").flatMap((line) => {
  const [, section, sentence] = /^\| \*\*([PD]\d+)\*\* (.*?) \| (?:no|partly|differs)/.exec(line) ?? [];
  return section && sentence ? [{ section, sentence }] : [];
});
const titles = testTitles();
let missing = rows.length === 0 ? 1 : 0;
for (const { section, sentence } of rows) {
  const answer = CONFORMANCE_ROWS.find((each) => each.section === section && sentence.includes(each.sentence));
  console.log(`${section} ${sentence}`);
  const tests = (answer?.tests ?? []).flatMap((start) => {
    const found = titles.filter(({ title }) => title.startsWith(start));
    if (found.length === 0) missing++;
    return found.length === 0 ? [`MISSING ${start}`] : found.map(({ path, title }) => `${path}: ${title}`);
  });
  if (answer === undefined) missing++;
  for (const line of [...tests, answer === undefined ? "NO ANSWER" : answer.reason])
    if (line) console.log(`    ${line}`);
}
console.log(`${rows.length} rows, ${missing} without an answer`);
process.exit(missing > 0 ? 1 : 0);
