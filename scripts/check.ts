/** scripts/check.ts: all checks before a commit except the tests. Reports all problems at once. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const root = dirname(import.meta.dir);
const WARN_LINES = 300;
const FAIL_LINES = 500;

/** Files that may be longer, with the reason. */
const LONG: Readonly<Record<string, string>> = {};

type Problem = { file: string; line?: number; says: string };
type Rule = { applies: (file: string) => boolean; pattern: RegExp; says: string };

const isText = (file: string) => !/\.(png|jpe?g|webp|onnx|gguf|ico|woff2?|xz|zst|gz|db|fatbin)$/.test(file);
const isProductCode = (file: string) => /^src\/.*\.tsx?$/.test(file) && !file.endsWith(".test.ts");

const RULES: readonly Rule[] = [
  {
    applies: isText,
    pattern: /\b(registry\.[a-z\d-]+\.[a-z]{2,}|[\w-]+\.(npmjs|yarnpkg|npmmirror)\.[a-z]{2,})\b/,
    says: "names a package registry: a build uses the settings of the machine",
  },
  {
    applies: isText,
    pattern: /(?<![\w.$})\]>/-])\/(root|work(?!space\b)|Users|home\/(?!(verk|ada)\b)[a-z])[\w.-]*\/[\w.-]/, // ada is the user of our examples; /workspace is the folder of a session
    says: "has an absolute path of one machine",
  },
  {
    applies: (file) =>
      isProductCode(file) &&
      !file.startsWith("src/dashboard/") && // runs in a browser, and shows examples that read it
      file !== "src/platform/config/config.ts" &&
      file !== "src/main.ts",
    pattern: /^(?!\s*(\*|\/[/*])).*\bprocess\.env\b/, // a comment may mention it
    says: "reads the environment: only platform/config/config.ts and main.ts do",
  },
  { applies: isProductCode, pattern: /^export default\b/, says: "has a default export: use a named export" },
];

function readRules(file: string, lines: readonly string[]): Problem[] {
  const rules = RULES.filter((rule) => rule.applies(file));
  return lines.flatMap((text, i) =>
    rules.filter((rule) => rule.pattern.test(text)).map((rule) => ({ file, line: i + 1, says: rule.says })),
  );
}

function tracked(): string[] {
  const git = Bun.spawnSync(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
  if (!git.success) throw new Error(`git ls-files: ${git.stderr.toString()}`);
  return git.stdout
    .toString()
    .split("\0")
    .filter((file) => file !== "" && existsSync(join(root, file)));
}

function checkFiles(): { problems: Problem[]; warnings: Problem[] } {
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  for (const file of tracked().filter(isText)) {
    const lines = readFileSync(join(root, file), "utf8").split("\n");
    problems.push(...readRules(file, lines));
    if (!/\.tsx?$/.test(file) || LONG[file] !== undefined) continue;
    const says = `has ${lines.length} lines: split it (limit ${FAIL_LINES}, aim below ${WARN_LINES})`;
    if (lines.length > FAIL_LINES) problems.push({ file, says });
    else if (lines.length > WARN_LINES) warnings.push({ file, says });
  }
  for (const file of Object.keys(LONG))
    if (!existsSync(join(root, file))) problems.push({ file, says: "is on the list of long files but does not exist" });
  return { problems, warnings };
}

type Outcome = { title: string; ok: boolean; output: string; seconds: number };

async function command(title: string, argv: string[]): Promise<Outcome> {
  const startedAt = performance.now();
  const child = Bun.spawn(argv, { cwd: root, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return { title, ok: child.exitCode === 0, output: out + err, seconds: (performance.now() - startedAt) / 1000 };
}

const bin = (name: string) => join(root, "node_modules/.bin", name);
const outcomes = await Promise.all([
  command("format and lint", [process.execPath, bin("biome"), "ci", "--colors=off", "."]),
  command("types", [process.execPath, bin("tsc"), "--noEmit", "-p", "."]),
  command("generated files", [process.execPath, "scripts/gen.ts", "--check"]),
]);
const { problems, warnings } = checkFiles();

for (const { title, ok, output, seconds } of outcomes) {
  console.log(`${ok ? "ok  " : "FAIL"} ${title} (${seconds.toFixed(1)} s)`);
  if (!ok) console.log(output.trimEnd());
}
const show = ({ file, line, says }: Problem) => `     ${file}${line ? `:${line}` : ""} ${says}`;
console.log(`${problems.length === 0 ? "ok  " : "FAIL"} house rules`);
for (const problem of problems) console.log(show(problem));
for (const warning of warnings) console.log(`warn${show(warning).slice(4)}`);
process.exit(problems.length === 0 && outcomes.every(({ ok }) => ok) ? 0 : 1);
