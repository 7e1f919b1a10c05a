/**
 * What a run of the tests told, and which of their files deserve a second try. A test that fails beside others and
 * passes alone is named as flaky; what the report does not tell of stays red.
 */

export type Case = { file: string; name: string; outcome: "passed" | "failed" | "skipped" };
export type Counts = { passed: number; failed: number; skipped: number };
/**
 * `broken`: files that failed outside a test, so that no case tells of it. `aborted`: files that Bun gave up because
 * another file's process crashed; they have no cases. `unknown`: failures that nothing tells of.
 */
export type Run = { cases: Case[]; broken: string[]; aborted: string[]; unknown: number };

export const MOST_FILES = 8; // more of them, and it is not chance

/** Names that Bun gives to failures without a test: of a hook, and of a process that ended in the middle of a file. */
const NO_TESTS = ["(unnamed)", "(worker crashed)"];
const NAMED: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };

function unescaped(text: string): string {
  return text.replace(/&(?:#(\d+)|(\w+));/g, (whole, code?: string, name = "") =>
    code === undefined ? (NAMED[name] ?? whole) : String.fromCodePoint(Number(code)),
  );
}

const attribute = (tag: string, name: string) => unescaped(new RegExp(`\\s${name}="([^"]*)"`).exec(tag)?.[1] ?? "");

/** Bun's JUnit report: a suite for each file, in it one for each `describe`. */
export function readReport(xml: string): Case[] {
  const cases: Case[] = [];
  const within: string[] = [];
  // A case's own file may be another: the one that a file took its tests from.
  for (const [tag, kind] of xml.matchAll(/<(\/?\w+)\b[^>]*>/g)) {
    const isWhole = tag.endsWith("/>");
    if (kind === "testsuite" && !isWhole) within.push(attribute(tag, "name"));
    else if (kind === "/testsuite") within.pop();
    else if (kind === "testcase") {
      const name = [...within.slice(1), attribute(tag, "name")].join(" > ");
      cases.push({ file: within[0] ?? "", name, outcome: "passed" });
    } else if (kind === "failure" || kind === "error") cases.at(-1)!.outcome = "failed";
    else if (kind === "skipped") cases.at(-1)!.outcome = "skipped";
  }
  return cases;
}

/** A file that breaks while it is read, or between its tests, is only in what the runner prints. */
function readOutput(output: string): { broken: string[]; aborted: string[]; failures: number } {
  const broken = new Set<string>();
  const aborted = new Set<string>();
  let file = "";
  let failures = 0;
  for (const line of Bun.stripANSI(output).split("\n")) {
    file = /^(\S+\.test\.tsx?):$/.exec(line)?.[1] ?? file;
    if (line.startsWith("# Unhandled error between tests")) broken.add(file);
    const given = /^✗ (\S+) \(aborted: /.exec(line)?.[1];
    if (given !== undefined) aborted.add(given);
    failures = Number(/^ *(\d+) fail$/.exec(line)?.[1] ?? failures);
  }
  return { broken: [...broken].filter((each) => each !== "" && !aborted.has(each)), aborted: [...aborted], failures };
}

export function readRun(exitCode: number, xml: string, output: string): Run {
  const { broken, aborted, failures } = readOutput(output);
  const cases = readReport(xml);
  const told = cases.filter(({ outcome }) => outcome === "failed").length + broken.length + aborted.length;
  const isIdle = !cases.some(({ outcome }) => outcome === "passed");
  const silent = told === 0 && (exitCode !== 0 || isIdle) ? 1 : 0; // it crashed, or there was nothing to run
  const whole = cases.filter(({ file }) => !aborted.includes(file));
  return { cases: whole, broken, aborted, unknown: Math.max(silent, failures - told) };
}

export function countsOf({ cases, broken, aborted, unknown }: Run): Counts {
  const count = (outcome: Case["outcome"]) => cases.filter((each) => each.outcome === outcome).length;
  return {
    passed: count("passed"),
    failed: count("failed") + broken.length + aborted.length + unknown,
    skipped: count("skipped"),
  };
}

const failing = ({ cases, broken }: Run): string[] => [
  ...new Set([...cases.filter(({ outcome }) => outcome === "failed").map(({ file }) => file), ...broken]),
];

/** The files to run once more: none where something is wrong that no file tells of. */
export function toRepeat(run: Run): string[] {
  const files = failing(run);
  return run.unknown === 0 && run.aborted.length === 0 && files.length <= MOST_FILES ? files : [];
}

/** A run with the results of a second run, which was over the files that the first one gave up. */
export const resumed = (first: Run, second: Run): Run => ({
  cases: [...first.cases, ...second.cases],
  broken: [...first.broken, ...second.broken],
  aborted: second.aborted,
  unknown: first.unknown + second.unknown,
});

/**
 * The first run with what the second try of one file told in place of what the first one did. What failed and is then
 * skipped or not there at all has not passed. A hook or a crash is in the report only when it fails.
 */
export function withSecondTry(first: Run, file: string, second: Run): Run {
  const ran = new Set(second.cases.filter(({ outcome }) => outcome !== "skipped").map(({ name }) => name));
  const isLost = ({ name, outcome }: Case) =>
    outcome === "failed" && !ran.has(name) && !NO_TESTS.some((each) => name.endsWith(each));
  const lost = first.cases.filter((each) => each.file === file && isLost(each));
  const gone = new Set(lost.map(({ name }) => name));
  return {
    cases: [
      ...first.cases.filter((each) => each.file !== file),
      ...lost,
      ...second.cases.filter(({ name }) => !gone.has(name)),
    ],
    broken: [...first.broken.filter((each) => each !== file), ...second.broken],
    aborted: first.aborted,
    unknown: first.unknown + second.unknown,
  };
}

/** What failed first and is no failure any more, as lines. */
export function flaky(first: Run, last: Run): string[] {
  const key = ({ file, name }: Case) => `${file} > ${name}`;
  const failed = (run: Run) => [
    ...run.cases.filter(({ outcome }) => outcome === "failed").map(key),
    ...run.broken.map((file) => `${file} > (outside a test)`),
  ];
  const still = new Set(failed(last));
  return [...new Set(failed(first))].filter((each) => !still.has(each)).map((each) => `flaky: ${each}`);
}
