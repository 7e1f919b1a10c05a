// tier: all (whole paths on the executable)
import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { startBinary } from "../binary.ts";
import { runVerk, spawnVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";

const root = tempDir();
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** No data directory exists, and temporary files can be counted. */
const env = { HOME: join(root, "home"), TMPDIR: root };
const spawn = (args: string[]) => spawnVerk(["rewards", ...args], { cwd: root, env });
const verk = (args: string[], { stdin }: { stdin?: string } = {}) =>
  runVerk(["rewards", ...args], { cwd: root, env, stdin });

const file = (name: string, text: string) => {
  writeFileSync(join(root, name), text);
  return name;
};
const temporary = () => readdirSync(root).filter((name) => name.startsWith("verk-"));
const jsonl = (...rows: object[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");
const ROWS = file(
  "rows.jsonl",
  jsonl(
    { prompt: "6 * 7?", completion: "42", answer: "42" },
    { prompt: "7 * 7?", completion: "48, I think", answer: "49" },
    { prompt: "?", completion: "", answer: "0" },
  ),
);

describe("verk rewards test", () => {
  test("prints a row for each sample, a summary, the active layers, and the output of the code", async () => {
    const path = file(
      "two.py",
      `def accuracy_reward(completions, answer, **kwargs):
    print("seen", len(completions))
    return [float(text == right) for text, right in zip(completions, answer)]

def length_reward(completion):
    return 1 / len(completion)
`,
    );
    const { code, out, err } = await verk(["test", path, "--rows", ROWS]);
    expect([code, err]).toEqual([0, ""]);
    const lines = out.split("\n");
    expect(lines[0]).toMatch(/^LINE +REWARD +two\/accuracy_reward +two\/length_reward +MS +ERROR$/);
    expect(lines[1]).toMatch(/^1 +1\.5 +1 +0\.5 +\d+\.\d$/);
    expect(lines[2]).toMatch(/^2 +0\.0909091 +0 +0\.0909091 +\d+\.\d$/);
    expect(lines[3]).toMatch(/^3 +- +0 +- +\d+\.\d +two\/length_reward: exception, line 6: ZeroDivisionError/);
    expect(out).toMatch(/rewards +2 of 3 scored; mean 0\.795455/);
    expect(out).toMatch(/errors +1 exception\n/);
    expect(out).toMatch(/latency +p50 .* ms, p95 .* ms\n/);
    expect(out).toMatch(/sandbox +language, .*seccomp/);
    expect(out).toContain("output of the code:\nseen 3");
    expect(temporary()).toEqual([]);
  });

  test("takes TypeScript, rows from standard input, and a limit; --json is the API's own shape", async () => {
    const path = file(
      "short.ts",
      "export const reward = ({ completion }: { completion: string }) => completion.length;",
    );
    const given = { stdin: readFileSync(join(root, ROWS), "utf8") };
    const { code, json } = await verk(["test", path, "--rows", "-", "--limit", "2", "--json"], given);
    expect(code).toBe(0);
    expect(json()).toMatchObject({
      object: "reward_run",
      results: [
        { index: 0, reward: 2, sub_rewards: { short: 2 } },
        { index: 1, reward: 11 },
      ],
      summary: { count: 2, scored: 2, mean: 6.5 },
      layers: expect.arrayContaining(["language", "seccomp"]),
    });
  });

  test("shows errors of code with the line and a mark below the position, and exits 1", async () => {
    const path = file("broken.py", "import re\n\ndef reward(completions, **kwargs)\n    return []\n");
    const { code, out, err } = await verk(["test", path, "--rows", ROWS]);
    expect([code, out]).toEqual([1, ""]);
    expect(err).toBe(
      `broken.py:3:34: syntax: expected ':'\n    def reward(completions, **kwargs)\n${" ".repeat(4 + 33)}^\n`,
    );
    const other = file("nothing.ts", "export const x = 1;\n");
    expect(await verk(["test", other, "--rows", ROWS])).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^nothing\.ts.*: signature: /),
    });
  });

  test("exits 1 when every row failed, and shows why", async () => {
    const path = file("raises.py", "def reward(completion):\n    raise ValueError('\\x1b[31mred')\n");
    const { code, out } = await verk(["test", path, "--rows", ROWS]);
    expect(code).toBe(1);
    expect(out).toContain("exception, line 2: ValueError: \ufffd[31mred");
    expect(out).toContain("errors    3 exception");
  });

  test("a row that takes too long is reported, and the other rows are scored", async () => {
    const path = file(
      "slow.py",
      "def reward(completion):\n    while completion == '':\n        pass\n    return 1.0\n",
    );
    const { code, json } = await verk(["test", path, "--rows", ROWS, "--timeout", "0.5", "--json"]);
    expect(code).toBe(0);
    expect(json().results.map((each: { reward: number | null }) => each.reward)).toEqual([1, 1, null]);
    expect(json().summary.faults).toEqual({ timeout: 1 });
  });

  test("Ctrl-C in the middle exits 130 and leaves neither a process nor a file", async () => {
    const path = file("loop.py", "def reward(completion):\n    while True:\n        pass\n");
    const child = spawn(["test", path, "--rows", ROWS, "--timeout", "60"]);
    const children = () => readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim();
    const inside = await until("its process to start", children);
    child.kill("SIGINT");
    await child.exited;
    expect([child.exitCode, temporary()]).toEqual([130, []]);
    for (const pid of inside.split(" ")) await until(`${pid} to be gone`, () => !existsSync(`/proc/${pid}`));
  });

  test("a built-in reward is named instead of a file, with its params", async () => {
    const { code, json } = await verk(["test", "exact_match", "--rows", ROWS, "--param", "column=answer", "--json"]);
    expect(code).toBe(0);
    expect(json().results.map((each: { reward: number }) => each.reward)).toEqual([1, 0, 0]);
    expect(await verk(["test", "exact_math", "--rows", ROWS])).toMatchObject({
      code: 2,
      err: expect.stringContaining("Did you mean exact_match?"),
    });
    expect(await verk(["test", "exact_match", "--rows", ROWS, "--param", "colum=x"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("colum"),
    });
  });

  test.each([
    [["test", "none.py", "--rows", ROWS], 2, "no file and no built-in reward function"],
    [["test", "exact_match"], 2, "--rows FILE is missing"],
    [["test", "exact_match", "--rows", "none.jsonl"], 2, "there is no such file"],
    [["test", "exact_match", "--rows", ROWS, "--param", "x"], 2, "expected KEY=VALUE"],
    [["test", "exact_match", "--rows", ROWS, "--timeout", "soon"], 2, "number of seconds"],
    [["test", "exact_match", "--rows", ROWS, "--limit", "0"], 2, "at least 1"],
    [["test", ROWS, "--rows", ROWS], 2, "the language is unknown"],
    [["test", ROWS, "--rows", ROWS, "--language", "pyton"], 2, "Did you mean python?"],
  ])("%p is a wrong argument", async (args, code, message) => {
    expect(await verk(args)).toMatchObject({ code, out: "", err: expect.stringContaining(message) });
  });

  test("a line that is no row is reported with its number", async () => {
    const rows = file("bad.jsonl", `${jsonl({ completion: "x" })}\n{"prompt": "p"}\n`);
    const answer = await verk(["test", "exact_match", "--rows", rows]);
    expect(answer).toMatchObject({ code: 1, err: expect.stringContaining("bad.jsonl: Line 3: completion is missing") });
  });
});

test("library lists the built-in rewards without a server", async () => {
  const { code, out } = await verk(["library"]);
  expect([code, out]).toEqual([
    0,
    expect.stringMatching(/^NAME +PARAMS +DESCRIPTION\nexact_match +column, ignore_case/),
  ]);
});

test("push stores a file on the server or reports its errors, and list shows the newest of each name", async () => {
  const server = await startBinary();
  const at = ["--data", server.dir];
  try {
    const path = file("kept.py", "def reward(completion, row): return 1.0\n");
    const first = await verk(["push", path, ...at]);
    expect([first.code, first.out]).toEqual([0, expect.stringMatching(/^rf_\w{26}\n$/)]);
    expect(first.err).toContain("kept@1, reward(completion, row)");
    expect((await verk(["push", path, ...at])).err).toContain("was uploaded before: kept@1");
    file("kept.py", "def reward(completion, row) return 1.0\n");
    const wrong = await verk(["push", path, ...at]);
    expect([wrong.code, wrong.err]).toEqual([1, expect.stringContaining("kept.py:1:29: syntax: ")]);
    const { out } = await verk(["list", ...at]);
    expect(out).toMatch(
      /^ID +NAME +KIND +LANGUAGE +STATUS +FUNCTIONS +CREATED\nrf_\w+ +kept@2 +reward +python +invalid +- +/,
    );
    expect((await verk(["list", "--all", "--json", ...at])).json().data).toHaveLength(2);
  } finally {
    await server.kill();
    rmSync(server.dir, { recursive: true, force: true });
  }
});

/** The examples of the page are what people copy. */
test("the examples of docs/rewards.md give the results on the page", async () => {
  const page = readFileSync(resolve(import.meta.dir, "../../docs/rewards.md"), "utf8");
  const samples = [...page.matchAll(/^```(?:python|ts|js) (\S+)\n([\s\S]*?)^```$/gm)];
  const rewards: Record<string, unknown> = {};
  for (const [, name = "", text = ""] of samples) {
    const { json } = await verk(["test", file(name, text), "--rows", ROWS, "--json"]);
    rewards[name] = json().results.map((each: { reward: number }) => each.reward);
  }
  expect(rewards).toEqual({
    "accuracy.py": [1, 0, 0],
    "brevity.py": [1, 1, 1],
    "polite.ts": [0, 0, 0],
    "short.js": [1, 0, 1],
  });
});
