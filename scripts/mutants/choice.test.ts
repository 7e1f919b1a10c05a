import { expect, test } from "bun:test";
import { applied, changesOf, drawn, isProduct, relocated } from "./choice.ts";
import { parseText } from "./program.ts";

/** `from → to` of every mutant of a text. */
async function mutantsOf(text: string): Promise<string[]> {
  const changes = changesOf(await parseText(text));
  for (const change of changes) expect(applied(text, change)).not.toBe(text);
  return changes.map(({ from, to }) => `${from} → ${to}`);
}

test("operators change to their neighbours", async () => {
  expect(await mutantsOf("const a = b < c;")).toEqual(["< → <="]);
  expect(await mutantsOf("const a = b && c !== d;")).toEqual(["&& → ||", "!== → ==="]);
  expect(await mutantsOf("const a = b + c - d;")).toEqual(["- → +", "+ → -"]);
  expect(await mutantsOf("a += b;")).toEqual(["a += b; → ;", "+= → -="]);
  expect(await mutantsOf("const a = b ?? c;")).toEqual(["b ?? c → c"]);
  expect(await mutantsOf('const a = b + "text" + `c`;')).toEqual([]);
});

test("conditions are negated, once each", async () => {
  expect(await mutantsOf("if (a) b = c;")).toEqual(["a → !(a)", "b = c; → ;"]);
  expect(await mutantsOf("const x = a === b ? c : d;")).toEqual(["=== → !=="]);
  expect(await mutantsOf("const x = !a ? c : d;")).toEqual(["!a → a"]);
});

test("statements and early exits are removed", async () => {
  expect(await mutantsOf("save(a); await save(b);")).toEqual(["save(a); → ;", "await save(b); → ;"]);
  expect(await mutantsOf("for (const a of b) if (a.done) continue;")).toEqual([
    "a.done → !(a.done)",
    "if (a.done) continue; → ;",
  ]);
  expect(await mutantsOf("function f() { if (a) { throw b; } }")).toEqual(["a → !(a)", "if (a) { throw b; } → ;"]);
  expect(await mutantsOf("class A extends B { constructor() { super(c); } }")).toEqual([]);
});

test("a returned value is replaced by a plain one of its type", async () => {
  expect(await mutantsOf("function f(): boolean { return g(); }")).toEqual(["g() → true", "g() → false"]);
  expect(await mutantsOf("async function f(): Promise<number> { return g(); }")).toEqual(["g() → 0", "g() → 1"]);
  expect(await mutantsOf("const f = () => a.filter(g);")).toEqual(["a.filter(g) → []"]);
  expect(await mutantsOf("const f = () => [a];")).toEqual(["[a] → []"]);
  expect(await mutantsOf("const f = (): T[] => g();")).toEqual(["g() → []"]);
  expect(await mutantsOf("const f = () => true;")).toEqual(["true → false"]);
  expect(await mutantsOf("function f(): boolean { return a.map((b) => b.c(d)); }")).toEqual([
    "a.map((b) => b.c(d)) → true",
    "a.map((b) => b.c(d)) → false",
  ]);
});

test("numbers are off by one, but no times, no sizes and no names", async () => {
  expect(await mutantsOf("const a = [0, 0x10, 9_9];")).toEqual(["0 → 1", "0x10 → 17", "9_9 → 100"]);
  expect(await mutantsOf("const WAIT_MS = 5; const a = { sizeBytes: 7, 3: b }; const c = 60_000 as X;")).toEqual([]);
});

test("a call that may be left out is left out", async () => {
  expect(await mutantsOf("const a = b?.c(d);")).toEqual(["b?.c(d) → undefined"]);
  expect(await mutantsOf("const a = b?.(d);")).toEqual(["b?.(d) → undefined"]);
});

test("texts, types, errors, the log and tables of words are left alone", async () => {
  const texts = [
    'import { a } from "b";',
    "type A = 1 | 2; interface B { c: 3 }",
    'const W = ["a", 1, 2] as const;',
    "const x: A<4> = y as B<5>;",
    "function f() { throw new UsageError(a ? b : c, 2); }",
    "const e = new AppError(d, n === 1 ? s : t);",
    "ctx.log.warn(a, { b: 1 }); console.log(2); failpoint(f); timer.unref();",
    "const p = { message: n === 1 ? a : b, doc: c + d };",
    "const r = /a{1,2}/; // 1 < 2",
  ];
  expect(await Promise.all(texts.map(mutantsOf))).toEqual(texts.map(() => []));
});

test("positions are those of the text, also behind characters of several bytes", async () => {
  const text = 'const a = "…é😀";\nconst b = c < d;\n';
  const [change] = changesOf(await parseText(text));
  expect(change).toEqual({ at: text.indexOf("<"), line: 2, from: "<", to: "<=" });
  expect(() => applied("other text", { at: 0, line: 1, from: "<", to: "<=" })).toThrow('is not "<"');
});

test("a mutant is found again in a text that has changed, or it is gone", async () => {
  const mutant = { file: "a.ts", at: 12, line: 1, from: "<", to: "<=" };
  const find = (text: string) => relocated(mutant, text, async () => changesOf(await parseText(text)));
  expect(await find("const a = b < c;")).toBe(mutant);
  const moved = "const x = y < z; const a = 1;\n\nconst b = b < c;\n";
  expect(await find(`\n${moved}`)).toEqual({ ...mutant, at: 13, line: 2 });
  expect(await find("const a = b > c;")).toBeNull();
  expect(await find(`\n${"\n".repeat(40)}const a = b < c;`)).toBeNull(); // another place
});

test("a seed draws the same order again, and another seed another one", () => {
  const mutants = Array.from({ length: 20 }, (_, at) => ({ file: "src/a.ts", at, line: 1, from: "<", to: "<=" }));
  expect(drawn(mutants, 7)).toEqual(drawn(mutants.toReversed(), 7));
  expect(drawn(mutants, 7)).not.toEqual(drawn(mutants, 8));
  const fewer = mutants.filter(({ at }) => at !== 3);
  expect(drawn(fewer, 7)).toEqual(drawn(mutants, 7).filter(({ at }) => at !== 3));
});

test("mutants are made of the product without the dashboard, the tests and generated files", () => {
  const files = ["src/lib/time.ts", "src/lib/time.test.ts", "src/dashboard/main.ts", "scripts/test.ts"];
  expect(files.filter(isProduct)).toEqual(["src/lib/time.ts"]);
  expect(isProduct("src/platform/db/migrations/index.ts")).toBe(false);
});
