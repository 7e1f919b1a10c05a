import { expect, test } from "bun:test";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dir, "../..");

/** The module in a process of its own, because it reads the environment once. */
function draw(env: Record<string, string>) {
  const script = `
    const { SEED, randomFor, seedFor, sweep } = await import(${JSON.stringify(join(ROOT, "test/sweep.ts"))});
    const numbers = ["a", "b"].map((use) => [seedFor(use), randomFor(use)()]);
    console.log(JSON.stringify({ seed: SEED, numbers, size: sweep({ quick: 2, full: 9 }) }));`;
  const { VERK_TEST_SEED: _, VERK_TEST_FULL: __, ...rest } = process.env;
  const child = Bun.spawnSync([process.execPath, "-e", script], { env: { ...rest, ...env }, stderr: "pipe" });
  const said = child.stderr.toString();
  return { said, code: child.exitCode, ...(child.exitCode === 0 ? JSON.parse(child.stdout.toString()) : {}) };
}

test("a run draws a seed and prints how to repeat it; the same seed gives the same numbers", () => {
  const [first, second] = [draw({}), draw({})];
  expect(first.seed).not.toBe(second.seed);
  expect(first.said).toContain(`VERK_TEST_SEED=${first.seed}`);
  const again = draw({ VERK_TEST_SEED: `${first.seed}` });
  expect(again.numbers).toEqual(first.numbers);
  expect(again.said).toBe("");
  expect(first.numbers[0]).not.toEqual(first.numbers[1]);
});

test("--full uses the full size, all other calls the quick size", () => {
  expect([draw({}).size, draw({ VERK_TEST_FULL: "0" }).size, draw({ VERK_TEST_FULL: "1" }).size]).toEqual([2, 2, 9]);
});

test("a seed that is not a number is refused", () => {
  const { code, said } = draw({ VERK_TEST_SEED: "x" });
  expect(code).not.toBe(0);
  expect(said).toContain('VERK_TEST_SEED must be a whole number, not "x"');
});

test("no test draws numbers that a seed cannot repeat", async () => {
  // In code that they score.
  const quoted = [
    "test/sandbox/environments.test.ts",
    "test/sandbox/javascript.test.ts",
    "test/sandbox/reward_functions.test.ts",
  ];
  const found: string[] = [];
  for (const file of new Bun.Glob("{test,src}/**/*.ts").scanSync(ROOT)) {
    if (file.startsWith("src/") && !file.endsWith(".test.ts")) continue;
    if (file === "test/meta/sweep.test.ts" || quoted.includes(file)) continue;
    if ((await Bun.file(join(ROOT, file)).text()).includes("Math.random(")) found.push(file);
  }
  expect(found).toEqual([]);
});
