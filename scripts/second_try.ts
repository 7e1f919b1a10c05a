/**
 * Reads the results of a test run and chooses the files for a second try. A test that fails beside others and passes
 * alone is reported as flaky. A failure that the report does not name stays a failure.
 */

export type Case = { file: string; name: string; outcome: "passed" | "failed" | "skipped" };
export type Counts = { passed: number; failed: number; skipped: number };
/**
 * `broken`: files that failed outside a test, so that no case shows it. `aborted`: files that Bun aborted because
 * another file's process crashed; they have no cases. `unknown`: number of failures without a name.
 */
export type Run = { cases: Case[]; broken: string[]; aborted: string[]; unknown: number };

export const MOST_FILES = 8; // with more failing files, the cause is not chance

/** Names that Bun gives to failures outside a test: in a hook, or when a process ends in the middle of a file. */
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
  // The file attribute of a case may name another file, from which the tests were imported.
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

/** A file that fails while it is loaded, or between its tests, is only in the output of the runner. */
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
  const reported = cases.filter(({ outcome }) => outcome === "failed").length + broken.length + aborted.length;
  const isIdle = !cases.some(({ outcome }) => outcome === "passed");
  const silent = reported === 0 && (exitCode !== 0 || isIdle) ? 1 : 0; // the runner crashed, or no test ran
  const whole = cases.filter(({ file }) => !aborted.includes(file));
  return { cases: whole, broken, aborted, unknown: Math.max(silent, failures - reported) };
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

/** The files for a second try: none if there are failures that belong to no file. */
export function toRepeat(run: Run): string[] {
  const files = failing(run);
  return run.unknown === 0 && run.aborted.length === 0 && files.length <= MOST_FILES ? files : [];
}

export const NOTHING: Run = { cases: [], broken: [], aborted: [], unknown: 0 };

/** The results of two runs over different files. */
export const together = (a: Run, b: Run): Run => ({
  cases: [...a.cases, ...b.cases],
  broken: [...a.broken, ...b.broken],
  aborted: [...a.aborted, ...b.aborted],
  unknown: a.unknown + b.unknown,
});

/** Adds the results of a second run over the files that the first run aborted. */
export const resumed = (first: Run, second: Run): Run => ({
  cases: [...first.cases, ...second.cases],
  broken: [...first.broken, ...second.broken],
  aborted: second.aborted,
  unknown: first.unknown + second.unknown,
});

/**
 * The first run with the results of one file replaced by those of its second try. A failed test that the second try
 * skips or does not have still counts as failed. A hook or a crash is in the report only if it fails.
 */
export function withSecondTry(first: Run, file: string, second: Run): Run {
  const ran = new Set(second.cases.filter(({ outcome }) => outcome !== "skipped").map(({ name }) => name));
  const isLost = ({ name, outcome }: Case) =>
    outcome === "failed" && !ran.has(name) && !NO_TESTS.some((each) => name.endsWith(each));
  const lost = first.cases.filter((each) => each.file === file && isLost(each));
  const lostNames = new Set(lost.map(({ name }) => name));
  return {
    cases: [
      ...first.cases.filter((each) => each.file !== file),
      ...lost,
      ...second.cases.filter(({ name }) => !lostNames.has(name)),
    ],
    broken: [...first.broken.filter((each) => each !== file), ...second.broken],
    aborted: first.aborted,
    unknown: first.unknown + second.unknown,
  };
}

/** One line for each test that failed first and passed in the second try. */
export function flaky(first: Run, last: Run): string[] {
  const key = ({ file, name }: Case) => `${file} > ${name}`;
  const failed = (run: Run) => [
    ...run.cases.filter(({ outcome }) => outcome === "failed").map(key),
    ...run.broken.map((file) => `${file} > (outside a test)`),
  ];
  const still = new Set(failed(last));
  return [...new Set(failed(first))].filter((each) => !still.has(each)).map((each) => `flaky: ${each}`);
}
