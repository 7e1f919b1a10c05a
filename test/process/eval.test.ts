// tier: all (whole paths on the executable)
import { afterAll, beforeAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { runVerk } from "../cli.ts";
import { startServing } from "../serving/served.ts";

let server: Awaited<ReturnType<typeof startServing>>;
beforeAll(async () => {
  server = await startServing();
});
afterAll(() => server.stop());

const ACCURACY = `def reward(completions, answer, **kwargs):
    return [float(text.strip() == str(right)) for text, right in zip(completions, answer)]
`;
const verk = (...args: string[]) =>
  runVerk(args, { cwd: server.dir, env: { VERK_URL: server.url, VERK_API_KEY: server.key } });

test("verk eval prints a model and recorded answers side by side, with margins of error", async () => {
  const rows = Array.from({ length: 8 }, (_, i) => ({
    prompt: `Say nothing about ${i}`,
    answer: i,
    draft: String(i),
    old: i === 0 ? "0" : "?",
  }));
  writeFileSync(join(server.dir, "held.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  writeFileSync(join(server.dir, "accuracy.py"), ACCURACY);
  const flags = ["--dataset", "held.jsonl", "--evaluator", "accuracy.py", "--outputs", "draft", "--outputs", "old"];
  const done = await verk("eval", "verk-tiny", ...flags, "--baseline", "draft", "--max-tokens", "2", "--regressions");
  expect([done.code, done.err]).toEqual([0, expect.stringContaining("accuracy: draft is better")]);
  const [header = "", accuracy = ""] = done.out.split("\n");
  expect(header.split(/ {2,}/)).toEqual(["EVALUATOR", "draft", "verk-tiny", "vs draft", "old", "vs draft"]);
  expect(accuracy.split(/ {2,}/)).toEqual([
    ...["accuracy", "1.000 ± 0.000", "0.000 ± 0.000", "−1.000, p = 0.0078 *"],
    ...["0.125 ± 0.188", "−0.875, p = 0.0156 *"],
  ]);
  expect(done.out.match(/1\.000 → 0\.000/g)).toHaveLength(15); // every row of verk-tiny, seven of the old answers
  const [experiment] = (await server.get("/v1/experiments")).data;
  const shown = await verk("experiments", "show", experiment.id, "--json");
  expect(shown.json()).toMatchObject({
    experiment: { status: "completed" },
    summary: { winners: { accuracy: "draft" } },
  });
  expect((await verk("experiments", "delete", experiment.id)).code).toBe(0);
}, 120_000);

test("verk eval names the flag or the argument that is wrong", async () => {
  const refused = async (...args: string[]) => {
    const { code, err } = await verk("eval", ...args);
    return [code, err.trim()];
  };
  writeFileSync(join(server.dir, "one.jsonl"), '{"prompt":"a","completion":"b"}\n');
  const flags = ["--dataset", "one.jsonl", "--evaluator"];
  expect(await refused("verk-tiny", "--evaluator", "x")).toEqual([2, expect.stringContaining("--dataset is missing")]);
  expect(await refused("verk-tiny", ...flags, "a.py")).toEqual([1, expect.stringContaining("there is no file a.py")]);
  expect(await refused("verk-tiny", ...flags, "nothing")).toEqual([1, expect.stringContaining("No evaluator nothing")]);
  expect(await refused("no-model", ...flags, "exact")).toEqual([1, expect.stringContaining('No model "no-model"')]);
}, 120_000);
