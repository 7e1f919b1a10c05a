import { expect, test } from "bun:test";
import { isRight, RECIPE, splitRows } from "../../lib/training/sums.ts";
import { parse } from "../args.ts";
import { lineOf } from "../commands/demo.ts";
import { create } from "../jobs/create.ts";
import type { Job } from "../jobs/find.ts";
import { repeatLines, resultLines } from "./summary.ts";
import type { Answers } from "./training.ts";
import { stepViewer } from "./viewer.ts";

const { train, heldOut } = splitRows();

test("no held-out question is trained on, and both are always the same", () => {
  const trained = new Set(train.map(({ prompt }) => prompt));
  expect(heldOut.filter(({ prompt }) => trained.has(prompt))).toEqual([]);
  expect([train.length, heldOut.length]).toEqual([710, 100]);
  expect(splitRows()).toEqual({ train, heldOut });
});

test("every row is a sum of a number of two digits and one of a single digit", () => {
  for (const { prompt, answer } of [...train, ...heldOut]) {
    const [, a, b] = /^What is (\d\d) \+ (\d)\?$/.exec(prompt) ?? [];
    expect(Number(a) + Number(b)).toBe(answer);
  }
});

const answers = (texts: string[]): Answers => {
  const right = texts.filter((text, i) => isRight(text, heldOut[i] ?? { prompt: "", answer: -1 })).length;
  return { texts, right, share: right / heldOut.length };
};

test("the summary shows both shares, and questions that only the trained one got right", () => {
  const rights = heldOut.map(({ answer }) => String(answer));
  const before = answers(rights.map((right, i) => (i < 2 ? "7" : right)));
  const lines = resultLines(before, answers(rights));
  expect(lines[1]).toMatch(/98\.0 % \(98 of 100\) +100\.0 % \(100 of 100\)$/);
  expect(lines.slice(2).map((line) => line.trim().split(/ {2,}/))).toEqual(
    heldOut.slice(0, 2).map(({ prompt, answer }) => [prompt, "7", String(answer)]),
  );
});

test("F30 the lines to repeat the demo are a script that bash takes, with flags that jobs create has", () => {
  const script = repeatLines().join("\n");
  const { exitCode, stderr } = Bun.spawnSync(["bash", "-n", "-c", script]);
  expect([exitCode, stderr.toString()]).toEqual([0, ""]);
  const [, words = ""] = /verk jobs create ([\s\S]*?)\nverk/.exec(script) ?? [];
  const { values } = parse("jobs create", create, words.replaceAll("\\\n", " ").trim().split(/\s+/));
  expect(values["set"]).toHaveLength(Object.keys(RECIPE).length);
  expect(script).not.toContain("curl");
});

test("the view of a training stands below its step's line and leaves no trace", () => {
  const written: string[] = [];
  const viewer = stepViewer({ isTTY: true, columns: 80, write: (text) => void written.push(text) });
  const progress = { step: 1, total_steps: 2, percent: 50, eta_seconds: null };
  const job = { status: "running", method: "grpo", output_name: "x", base_model: "m", progress, latest_metrics: {} };
  viewer.show({ job: job as unknown as Job, points: [] });
  viewer.end(undefined);
  expect(written.join("")).toStartWith("\n\r\x1b[K  x · grpo of m · running\n");
  expect(written.join("")).toEndWith("\r\x1b[2A\x1b[J\x1b[1A");
});

test("the details of all steps begin in the same column, also after a step of many minutes", () => {
  const column = (ms: number) => lineOf({ title: "train", ok: true, ms, detail: "DETAIL" }).indexOf("DETAIL");
  expect(new Set([3, 59_000, 127_000, 754_000, 3_599_000].map(column)).size).toBe(1);
});
