import { afterAll, expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../test/harness.ts";
import { UsageError } from "../../lib/errors.ts";
import { LANGUAGES, MAX_SOURCE_BYTES } from "../../lib/rewards/contract.ts";
import { isCodeName, isFile, paramsOf, readCode, readRows } from "./input.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const file = (name: string, content: string | Uint8Array) => {
  writeFileSync(join(dir, name), content);
  return join(dir, name);
};
const faultOf = async (work: () => unknown): Promise<string> => {
  try {
    await work();
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
  return "accepted";
};

const PYTHON = "def reward(completions, **kwargs):\n    return [1.0 for _ in completions]\n";

test("code has the name of its file, and the language of the flag, of the name or of the text", async () => {
  expect(await readCode(file("exact.py", PYTHON), undefined)).toEqual({
    name: "exact",
    source: PYTHON,
    language: "python",
  });
  expect(await readCode(file("plain", PYTHON), undefined)).toMatchObject({ name: "plain", language: "python" });
  for (const language of LANGUAGES)
    expect((await readCode(file("exact.py", PYTHON), language)).language).toBe(language);
});

test("a language that is not known is refused, with the one that was meant", async () => {
  const flagged = (flag: string) => faultOf(() => readCode(file("exact.py", PYTHON), flag));
  expect(await flagged("pyton")).toBe(
    `--language: expected ${LANGUAGES.join(", ")}, not "pyton". Did you mean python?`,
  );
  expect(await flagged("cobol")).toEndWith('not "cobol".');
  expect(await faultOf(() => readCode(file("odd", "1"), undefined))).toContain("the language is unknown");
});

test("code has a limit, and is UTF-8", async () => {
  const long = "#".repeat(MAX_SOURCE_BYTES);
  expect((await readCode(file("long.py", long), undefined)).source).toBe(long);
  expect(await faultOf(() => readCode(file("longer.py", `${long}#`), undefined))).toContain("is longer than the limit");
  expect(await faultOf(() => readCode(file("bytes.py", Uint8Array.of(0xff)), undefined))).toEndWith(
    "is not valid UTF-8",
  );
});

test("files and names of code", () => {
  expect([isFile("-"), isFile(file("here", "")), isFile(join(dir, "nowhere"))]).toEqual([true, true, false]);
  expect(["a.py", "a.TS", "a.js", "a.mjs", "a.pyc", "py", "a.jsx"].filter(isCodeName)).toEqual([
    "a.py",
    "a.TS",
    "a.js",
    "a.mjs",
  ]);
});

const row = (i: number) => JSON.stringify({ prompt: `p${i}`, completion: `c${i}` });

test("rows keep the numbers of their lines, and a limit takes the first ones", async () => {
  const path = file("rows.jsonl", `\n${row(1)}\n\n${row(2)}\n${row(3)}`);
  const all = await readRows(path, undefined);
  expect(all.lines).toEqual([2, 4, 5]);
  expect(all.samples.map(({ completion }) => completion)).toEqual(["c1", "c2", "c3"]);
  expect((await readRows(path, 2)).lines).toEqual([2, 4]);
  expect((await readRows(path, 3)).samples).toHaveLength(3);
  expect((await readRows(path, 9)).samples).toHaveLength(3);
});

test("a row without a completion is refused by its line; so is a file without rows", async () => {
  const path = file("faulty.jsonl", `${row(1)}\n{"prompt":"p"}\n`);
  expect(await faultOf(() => readRows(path, undefined))).toMatch(/faulty\.jsonl: .*line 2.*completion/i);
  expect(await faultOf(() => readRows(file("empty.jsonl", "\n\n"), undefined))).toEndWith("the file has no rows");
});

test("a parameter is JSON, or else text", async () => {
  expect(paramsOf(["a=1", 'b=["x"]', "c=x=y", "d=", "_e=true", "f=a\nb"])).toEqual({
    a: 1,
    b: ["x"],
    c: "x=y",
    d: "",
    _e: true,
    f: "a\nb",
  });
  for (const wrong of ["a", "=1", "1a=2", "a b=1"])
    expect(await faultOf(() => paramsOf([wrong]))).toBe(`--param: expected KEY=VALUE, not ${JSON.stringify(wrong)}`);
});
