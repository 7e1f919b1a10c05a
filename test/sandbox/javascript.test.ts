// tier: all (many jails)
/** Rewards in JavaScript and TypeScript, in the interpreter itself, without a process around it. */
import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { STDOUT_BYTES } from "../../src/lib/rewards/contract.ts";
import { openJavaScript } from "../../src/workers/reward/javascript/open.ts";
import { tempDir } from "../harness.ts";
import type { Reply, Row, Value } from "./plain_python.ts";

type OpenOptions = { language?: "javascript" | "typescript"; params?: Row; seed?: number; memoryBytes?: number };

async function open(source: string, { language, params = {}, seed = 1, memoryBytes = 64 << 20 }: OpenOptions = {}) {
  const interpreter = await openJavaScript({ memoryBytes });
  const loaded = interpreter.exchange({ op: "load", source, params, seed, ...(language ? { language } : {}) }) as Reply;
  const begin = (rows: Row[], entry = "reward") =>
    interpreter.exchange({
      op: "begin",
      entry,
      prompts: rows.map(({ prompt }) => prompt ?? "p"),
      completions: rows.map(({ completion }) => completion ?? "c"),
      rows,
    });
  const batch = () => interpreter.exchange({ op: "batch" }) as Reply;
  const one = (index: number) => interpreter.exchange({ op: "one", index }) as Reply;
  return { loaded, begin, batch, one, printed: interpreter.printed };
}

const ROWS: Row[] = [
  { prompt: "p0", completion: "c0", answer: "0" },
  { prompt: "p1", completion: "c1", answer: "1" },
];
const shown = ({ value, fault }: Value) => value ?? fault?.kind;

async function score(source: string, given: OpenOptions & { rows?: Row[]; entry?: string } = {}) {
  const code = await open(source, given);
  if (!code.loaded.ok) throw new Error(code.loaded.error?.message);
  code.begin(given.rows ?? ROWS, given.entry);
  const reply = code.batch();
  return reply.ok ? reply.values!.map(shown) : reply.error!;
}

describe("forms", () => {
  // biome-ignore format: a table should look like one
  test.each([
    ["all samples", "export function reward({ prompts, completions, rows }) { return rows.map((r, i) => Number(r.answer) + prompts.length + completions[i].length) }", [4, 5]],
    ["a column beside them", "export const reward = ({ completions, answer = [] }) => completions.map((_, i) => +answer[i])", [0, 1]],
    ["by place", "export function reward(completions, { answer }) { return completions.map((c, i) => +answer[i]) }", [0, 1]],
    ["one object by its body", "export function reward(x) { return x.completions.map((c) => c.length) }", [2, 2]],
    ["one sample", "export function reward({ prompt, completion, row }) { return prompt + completion === 'p' + row.answer + 'c' + row.answer }", [1, 1]],
    ["one sample by place", "export const reward = async (prompt, completion, row) => Number(row.answer)", [0, 1]],
    ["one sample, a column", "export const reward = (completion, answer) => Number(answer)", [0, 1]],
    ["default", "export default ({ completion }) => 1", [1, 1]],
    ["comments among the parameters", "export function reward(/* { completion } */ { completions, // all (of them)\n }) { return [1, 2] }", [1, 2]],
    ["a promise", "export async function reward({ completions }) { await null; return Promise.all(completions.map(async () => 2)) }", [2, 2]],
    ["await at the top", "const k = await Promise.resolve(3);\nexport const reward = ({ completion }) => k", [3, 3]],
    ["something that can be awaited", "export const reward = ({ completions }) => ({ then(done) { done([3, 4]); } })", [3, 4]],
    ["one that answers twice", "export const reward = ({ completions }) => ({ then(done, failed) { done([3, 4]); done([5, 6]); failed(1); } })", [3, 4]],
    ["a generator", "export function* reward({ completions }) { for (const c of completions) yield 1 }", [1, 1]],
  ])("%s", async (_name, source, expected) => {
    expect<unknown>(await score(source)).toEqual(expected);
  });

  test("several exports are several rewards", async () => {
    const source =
      "export const lengthReward = ({ completion }) => 1;\nfunction a_reward({ completions }) { return [] }\nexport { a_reward };\nexport const other = () => 1;\nexport default lengthReward;";
    const { loaded } = await open(source);
    expect<unknown>(loaded.entrypoints?.map(({ name, form, line }) => [name, form, line])).toEqual([
      ["lengthReward", "sample", 1],
      ["a_reward", "batch", 2],
    ]);
  });

  test("parameters are passed, and a column of the same name wins", async () => {
    const source = "export const reward = ({ completions, answer, scale }) => answer.map((a) => a * scale)";
    expect<unknown>(await score(source, { params: { scale: 10, answer: "never" } })).toEqual([0, 10]);
  });

  test("a column may have the name of a built-in property", async () => {
    const rows: Row[] = JSON.parse('[{"constructor":7,"__proto__":1},{"toString":8,"__proto__":2}]');
    const source =
      "export const reward = ({ completions, constructor, toString, ['__proto__']: p }) => { console.log(JSON.stringify([constructor, toString, p])); return p }";
    const code = await open(source);
    code.begin(rows);
    expect(code.batch().values?.map(shown)).toEqual([1, 2]);
    expect(code.printed().stdout).toBe("[[7,null],[null,8],[1,2]]\n");
    expect(await score("export const reward = (completions, valueOf) => [1, 1]")).toMatchObject({
      message: expect.stringContaining("needs `valueOf`"),
    });
  });

  test("a missing column is named if the function takes it by position", async () => {
    const error = await score("export const reward = (completions, solution) => [1, 1]");
    expect(error).toMatchObject({
      kind: "exception",
      message: expect.stringMatching(/`solution`.*The rows have: answer/),
    });
  });

  // biome-ignore format: a table should look like one
  test.each([
    ["no parameter", "\nexport function reward() { return 1 }", 2, /neither `completions` nor `completion`.*export function reward\(\{ prompts/],
    ["unknown parameters", "export const reward = (a, b) => 1", 1, /neither/],
    ["one and many", "export const reward = ({ prompts, completion }) => 1", 1, /one sample and all of them/],
    ["a class", "export class fooReward {}", null, /is a class/],
    ["not exported", "\n\nfunction reward({ completions }) {}", 3, /write `export` before it/],
    ["nothing", "export const score = () => 1", 1, /Nothing named `reward`/],
    ["a native one", "export const reward = Math.max.bind(null)", 1, /not a function of this file/],
  ])("%s is refused with a message", async (_name, source, line, words) => {
    const { loaded } = await open(source);
    expect<unknown>([loaded.ok, loaded.error?.kind, loaded.error?.line]).toEqual([false, "signature", line]);
    expect(loaded.error?.message).toMatch(words);
  });
});

describe("F11 an error names what was called and shows the line", () => {
  // biome-ignore format: a table should look like one
  test.each([
    ["a method", "export const reward = ({ completion }: any) => {\n  const text: string = completion;\n  return text.trm().length;\n};", 3, "TypeError: text.trm is not a function, in: return text.trm().length;"],
    ["a name behind a cast", "export const reward = ({ completion }: any) => {\n  const score = 3;\n  return 1 + (score as any)(completion as string);\n};", 3, "TypeError: what is called here is not a function, in: return 1 + (score as any)(completion as string);"],
    ["an index", "export const reward = ({ completion }: any) =>\n  [completion][0]['trm'](2);", 2, /^TypeError: .*is not a function, in: \[completion\]\[0\]\['trm'\]\(2\);$/],
    ["an unknown name", "export const reward = ({ completion }: any) =>\n  lenght(completion);", 2, "ReferenceError: 'lenght' is not defined, in: lenght(completion);"],
  ])("%s", async (_name, source, line, message) => {
    const code = await open(source, { language: "typescript" });
    code.begin(ROWS);
    const [value] = code.batch().values ?? [];
    expect<unknown>(value?.fault).toEqual({ kind: "exception", line, message: typeof message === "string" ? message : expect.stringMatching(message) });
  });
});

describe("TypeScript", () => {
  const SOURCE = `type Row = { answer: string };
interface Unused {
  a: number;
}

enum Level { Low, High }

/* a comment
   of two lines */
export function reward<T extends string>({ completions, rows }: { completions: T[]; rows: Row[] }): number[] {
  const wrong: any = null;

  return rows.map((row: Row): number => {
    if (row.answer === ("1" as string)) return wrong.field.other as number;
    return Level.High!;
  });
}`;
  test("types are removed, and an exception has the line of the original text", async () => {
    const code = await open(SOURCE, { language: "typescript" });
    expect(code.loaded.entrypoints?.[0]).toMatchObject({ name: "reward", form: "batch", line: 10 });
    code.begin(ROWS);
    expect(code.batch()).toMatchObject({ ok: false, error: { kind: "exception", line: 14 } });
    expect(code.one(0)).toMatchObject({ value: { value: 1 } });
  });

  test("the text decides the language if the caller gives none", async () => {
    expect<unknown>(await score("export const reward = ({ completion }: { completion: string }): number => 2")).toEqual(
      [2, 2],
    );
  });

  // biome-ignore format: a table should look like one
  test.each([
    ["typescript", "const a: number = 1;\nlet é = 'ö', = 3;", "syntax", 2, 14],
    ["javascript", "const a = 1;\nlet b = = 3;", "syntax", 2, 9],
    ["javascript", "const a: number = 1;", "syntax", 1, 8],
    ["typescript", "type A = number;\n\nconst x: any = null;\nx.y.z;", "exception", 4, null],
    ["javascript", "let a = 1;\n\nthrow new RangeError('no')", "exception", 3, null],
  ] as const)("%s: %j is refused as %s at its position", async (language, source, kind, line, column) => {
    const { loaded } = await open(source, { language });
    expect(loaded.error).toMatchObject({ kind, line, ...(column === null ? {} : { column }) });
  });
});

describe("values", () => {
  // biome-ignore format: a table should look like one
  test.each([
    ["true", 1], ["2n", 2], ["-0.5", -0.5], ["null", "none"], ["undefined", "none"], ["NaN", "not_finite"], ["1 / 0", "not_finite"],
    ["'1'", "not_a_number"], ["({})", "not_a_number"], ["[1]", "not_a_number"], ["Symbol('x')", "not_a_number"], ["(() => 1)", "not_a_number"],
  ])("%s", async (expression, expected) => {
    expect<unknown>(await score(`export const reward = ({ completions }) => [${expression}, 1]`)).toEqual([expected, 1]);
  });

  // biome-ignore format: a table should look like one
  test.each([
    ["[1]", "wrong_length", /1 values for 2/],
    ["[1, 2, 3]", "wrong_length", /3 values for 2/],
    ["(function* () { for (;;) yield 1 })()", "wrong_length", /more than 2/],
    ["1", "not_a_number", /a number: 1 and not an array of 2/],
    ["'ab'", "not_a_number", /a string: "ab"/],
    ["undefined", "not_a_number", /undefined/],
    ["new Map()", "not_a_number", /not an array/],
  ])("a batch that returns %s", async (expression, kind, words) => {
    const code = await open(`export const reward = ({ completions }) => ${expression}`);
    code.begin(ROWS);
    const { values } = code.batch();
    expect<unknown>(values?.map(shown)).toEqual([kind, kind]);
    expect(values?.[0]?.fault?.message).toMatch(words);
  });

  // biome-ignore format: a table should look like one
  test.each([
    ["throw new TypeError('no')", "exception", "TypeError: no"],
    ["throw 'a text'", "exception", 'the function threw a string: "a text"'],
    ["throw { toString() { throw 1 } }", "exception", "the function threw an object: {}"],
    ["null.x", "exception", "TypeError: cannot read property 'x' of null"],
    ["const f = () => f(); f()", "exception", "InternalError: stack overflow"],
    [`const f = () => \`\${{ toString: f }}\`; f()`, "exception", "InternalError: stack overflow"],
    ["const a = []; for (;;) a.push(new Array(1e5).fill(1))", "memory", "the function ran out of memory"],
    ["return new Promise(() => {})", "exception", "the function awaits something that can never finish inside the sandbox"],
    ["return Promise.reject(new Error('later'))", "exception", "Error: later"],
  ])("%s is a fault, and the next call works", async (body, kind, message) => {
    const code = await open(`let first = true;\nexport function reward({ completion }) { if (!first) return 1; first = false; ${body} }`, { memoryBytes: 32 << 20 });
    code.begin(ROWS);
    const failed = code.one(0);
    expect<unknown>(failed.ok ? failed.value?.fault : failed.error).toMatchObject({ kind, message: expect.stringContaining(message) });
    expect(code.one(1)).toEqual({ ok: true, value: { value: 1 } });
  });

  test("a batch that raises is reported, and each sample can then be tried with its own input", async () => {
    const code = await open(
      "export const reward = ({ completions }) => { if (completions.length > 1) { completions[0].pop(); throw new Error('no') } return [completions[0].length] }",
    );
    code.begin([{ completion: [{ role: "user" }] }, { completion: "ab" }]);
    expect(code.batch()).toMatchObject({ ok: false, error: { kind: "exception", message: "Error: no", line: 1 } });
    expect([code.one(0), code.one(1)]).toEqual([
      { ok: true, value: { value: 1 } },
      { ok: true, value: { value: 2 } },
    ]);
  });
});

describe("the world inside", () => {
  test("printed output is kept up to 64 KB, and counted", async () => {
    const code = await open(
      "console.log('at load');\nexport const reward = ({ completion }) => { print('é', { a: 1 }, [2]); return 1 }",
    );
    expect(code.printed()).toEqual({ stdout: "at load\n", stdout_bytes: 8 });
    code.begin(ROWS);
    code.one(0);
    expect(code.printed()).toEqual({ stdout: 'é {"a":1} [2]\n', stdout_bytes: 15 });
    const loud = await open(
      "export const reward = ({ completion }) => { for (let i = 0; i < 100; i++) console.log('x'.repeat(100000)); return 1 }",
    );
    loud.begin(ROWS);
    loud.one(0);
    const { stdout, stdout_bytes } = loud.printed();
    expect([stdout.length, stdout_bytes]).toEqual([STDOUT_BYTES, 100 * 100_001]);
  });

  test("Math.random is seeded", async () => {
    const source = "export const reward = ({ completions }) => completions.map(() => Math.random())";
    expect(await score(source)).toEqual(await score(source));
    expect(await score(source, { seed: 2 })).not.toEqual(await score(source));
  });

  test("the host is not reachable", async () => {
    const names =
      "typeof process + typeof require + typeof fetch + typeof Bun + typeof WebAssembly + typeof globalThis.constructor.constructor('return typeof process')().process";
    const code = await open(`export const reward = ({ completion }) => { throw ${names} }`);
    code.begin(ROWS);
    expect(code.one(0).error?.message).toContain("undefined".repeat(6));
  });

  test.each(['import fs from "node:fs";', 'import "x";', 'export * from "y";'])("%s is refused", async (line) => {
    const { loaded } = await open(`const a = 1;\n${line}\nexport const reward = ({ completion }) => 1;`);
    expect(loaded.error).toMatchObject({
      kind: "exception",
      line: 2,
      message: expect.stringContaining("cannot be imported"),
    });
  });

  // Bun's transpiler runs macros where it stands, which is outside of the interpreter.
  test.each(["typescript", "javascript", undefined] as const)(
    "a macro does not run in the host (%s)",
    async (language) => {
      const mark = join(tempDir(), "escaped");
      const write = `export const escaped = writeFileSync(${JSON.stringify(mark)}, "x");\nexport const reward = ({ completion }) => 1;`;
      for (const from of [
        '"node:fs" with { type: "macro" }',
        '"node:fs" with { type: "m\\u0061cro" }',
        '"macro:node:fs"',
      ]) {
        const { loaded } = await open(`import { writeFileSync } from ${from};\n${write}`, language ? { language } : {});
        expect(loaded.ok).toBe(false);
        expect(existsSync(mark)).toBe(false);
      }
      new Bun.Transpiler({ loader: "ts" }).transformSync(
        `import { writeFileSync } from "node:fs" with { type: "macro" };\n${write}`,
      );
      expect(existsSync(mark)).toBe(true); // else the above proves nothing
    },
  );
});
