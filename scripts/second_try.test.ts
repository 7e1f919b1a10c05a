import { expect, test } from "bun:test";
import {
  countsOf,
  flaky,
  MOST_FILES,
  type Run,
  readReport,
  readRun,
  resumed,
  toRepeat,
  withSecondTry,
} from "./second_try.ts";

const FAILED = '<failure type="AssertionError" message="&lt;testcase&gt; 1 &#10;" />';
const one = (name: string, inner = "") =>
  inner === "" ? `<testcase name="${name}" file="f" />` : `<testcase name="${name}" file="f">${inner}</testcase>`;
const file = (path: string, ...cases: string[]) =>
  `<testsuite name="${path}" file="${path}" tests="9" failures="9">${cases.join("\n")}</testsuite>`;
const report = (...files: string[]) =>
  `<?xml version="1.0"?>\n<testsuites name="bun test">${files.join("")}</testsuites>`;
const ran = (...files: string[]): Run => readRun(files.join().includes("<failure") ? 1 : 0, report(...files), "");

test("a report tells each test with its file and the groups around it", () => {
  const inner = `<testsuite name="b &lt;c&gt; &amp; &quot;d&quot;" file="x.ts">${one("it&apos;s &#10;", FAILED)}${one("no", "<skipped />")}</testsuite>`;
  const whole = report(file("a.test.ts", one("first"), `<testsuite name="a">${inner}</testsuite>`, one("last")));
  expect(readReport(whole)).toEqual([
    { file: "a.test.ts", name: "first", outcome: "passed" },
    { file: "a.test.ts", name: `a > b <c> & "d" > it's \n`, outcome: "failed" },
    { file: "a.test.ts", name: `a > b <c> & "d" > no`, outcome: "skipped" },
    { file: "a.test.ts", name: "last", outcome: "passed" },
  ]);
});

test("a test that fails once and then passes is counted as passed and named", () => {
  const first = ran(file("a.test.ts", one("x", FAILED), one("y")), file("b.test.ts", one("x")));
  expect(countsOf(first)).toEqual({ passed: 2, failed: 1, skipped: 0 });
  expect(toRepeat(first)).toEqual(["a.test.ts"]);
  const last = withSecondTry(first, "a.test.ts", ran(file("a.test.ts", one("x"), one("y"))));
  expect(countsOf(last)).toEqual({ passed: 3, failed: 0, skipped: 0 });
  expect(flaky(first, last)).toEqual(["flaky: a.test.ts > x"]);
});

test("one that fails twice stays failed, and so does one that failed only the second time", () => {
  const first = ran(file("a.test.ts", one("x", FAILED), one("y", FAILED), one("z")));
  const last = withSecondTry(first, "a.test.ts", ran(file("a.test.ts", one("x", FAILED), one("y"), one("z", FAILED))));
  expect(countsOf(last)).toEqual({ passed: 1, failed: 2, skipped: 0 });
  expect(flaky(first, last)).toEqual(["flaky: a.test.ts > y"]);
});

test("what is skipped or missing at the second try has not passed; a hook that failed is there only then", () => {
  const first = ran(file("a.test.ts", one("x", FAILED), one("y", FAILED), one("(unnamed)", FAILED), one("z")));
  const last = withSecondTry(first, "a.test.ts", ran(file("a.test.ts", one("x", "<skipped />"), one("z"))));
  expect(countsOf(last)).toEqual({ passed: 1, failed: 2, skipped: 0 });
  expect(flaky(first, last)).toEqual(["flaky: a.test.ts > (unnamed)"]);
});

test("a file whose process crashed beside others passes when it passes alone", () => {
  const first = ran(file("a.test.ts", one("(worker crashed)", FAILED)), file("b.test.ts", one("x")));
  expect(countsOf(first)).toEqual({ passed: 1, failed: 1, skipped: 0 });
  const last = withSecondTry(first, "a.test.ts", ran(file("a.test.ts", one("x"), one("y"))));
  expect(countsOf(last)).toEqual({ passed: 3, failed: 0, skipped: 0 });
  expect(flaky(first, last)).toEqual(["flaky: a.test.ts > (worker crashed)"]);
});

test("files that were given up because another one crashed are named, and count by their own run", () => {
  const output =
    "✗ a.test.ts (worker crashed: SIGSEGV)\n✗ b.test.ts (aborted: worker panicked)\n✗ c.test.ts (aborted: sibling worker panicked)\n 1 pass\n 3 fail\n";
  const xml = report(
    file("a.test.ts", one("(worker crashed)", FAILED)),
    file("c.test.ts", one("x")),
    file("d.test.ts", one("x")),
  );
  const first = readRun(1, xml, output);
  expect(first.aborted).toEqual(["b.test.ts", "c.test.ts"]);
  expect(countsOf(first)).toEqual({ passed: 1, failed: 3, skipped: 0 });
  expect(toRepeat(first)).toEqual([]);
  const whole = resumed(first, ran(file("b.test.ts", one("x")), file("c.test.ts", one("x"), one("y"))));
  expect(countsOf(whole)).toEqual({ passed: 4, failed: 1, skipped: 0 });
  expect(toRepeat(whole)).toEqual(["a.test.ts"]);
});

test("a file that breaks outside a test is told by the output alone, and is tried again too", () => {
  const output =
    "\u001b[1ma.test.ts:\u001b[0m\n(pass) x\n\nsrc/b.test.ts:\n\n# Unhandled error between tests\n---\nerror: no\n\n 1 pass\n 1 fail\n 1 error\n";
  const first = readRun(1, report(file("a.test.ts", one("x"))), output);
  expect(countsOf(first)).toEqual({ passed: 1, failed: 1, skipped: 0 });
  expect(toRepeat(first)).toEqual(["src/b.test.ts"]);
  const last = withSecondTry(first, "src/b.test.ts", ran(file("src/b.test.ts", one("y"))));
  expect(countsOf(last)).toEqual({ passed: 2, failed: 0, skipped: 0 });
  expect(flaky(first, last)).toEqual(["flaky: src/b.test.ts > (outside a test)"]);
});

test.each([
  ["the runner crashed", 139, "", ""],
  ["it failed without a word", 1, report(file("a.test.ts", one("x"))), ""],
  ["there was nothing to run", 0, report(), ""],
  ["more failed than the report tells", 1, report(file("a.test.ts", one("x", FAILED))), " 0 pass\n 2 fail\n"],
])("no second try where %s: it stays red", (_, exitCode, xml, output) => {
  const first = readRun(exitCode, xml, output);
  expect(countsOf(first).failed).toBeGreaterThan(0);
  expect(toRepeat(first)).toEqual([]);
});

test("a second try that crashes is red", () => {
  const first = ran(file("a.test.ts", one("x", FAILED)));
  expect(countsOf(withSecondTry(first, "a.test.ts", readRun(139, "", ""))).failed).toBeGreaterThan(0);
});

test("many failing files are not chance", () => {
  const failing = (count: number) =>
    ran(...Array.from({ length: count }, (_, i) => file(`${i}.test.ts`, one("x", FAILED), one("y", FAILED))));
  expect(toRepeat(failing(MOST_FILES))).toHaveLength(MOST_FILES);
  expect(toRepeat(failing(MOST_FILES + 1))).toEqual([]);
});
