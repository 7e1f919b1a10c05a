/** Hostile reward code in JavaScript. Winning something of the host is a reward of 666. */
import type { Attack } from "./attacks_kit.ts";

const reward = (...lines: string[]) => `export function reward({ completions }) {\n  ${lines.join("\n  ")}\n}\n`;
const scores = "return completions.map(() => 0.5);";
const won = "return completions.map(() => 666);";

export const JAVASCRIPT_ATTACKS: Attack[] = [
  { name: "infinite loop", source: reward("for (;;) {}"), samples: ["timeout"] },
  { name: "infinite loop at import", source: `for (;;) {}\n${reward(scores)}`, rejected: ["timeout"] },
  { name: "swallowed interrupts", source: reward("for (;;) { try { for (;;) {} } catch {} }"), samples: ["timeout"] },
  {
    name: "catastrophic regex",
    source: reward("return completions.map(() => +/(a+)+$/.test('a'.repeat(40) + 'b'));"),
    samples: ["timeout", "exception"],
  },
  {
    name: "a promise that never resolves",
    source: "export async function reward({ completions }) { await new Promise(() => {}); }",
    samples: ["exception", "timeout"],
  },
  {
    name: "a promise that calls itself for ever",
    source: "export async function reward({ completions }) { for (;;) await null; }",
    samples: ["timeout", "exception"],
  },
  {
    name: "huge power",
    source: reward("return completions.map(() => Number(2n ** 100000000n % 7n));"),
    samples: ["score", "timeout", "memory", "exception"],
  },
  {
    name: "memory bomb, arrays",
    source: reward("const held = []; for (;;) held.push(new Array(100000).fill(1));"),
    samples: ["memory", "exception", "timeout"],
  },
  {
    name: "memory bomb, texts",
    source: reward("let text = 'x'; for (;;) text += text;"),
    samples: ["memory", "exception", "crashed"],
  },
  {
    name: "caught memory errors",
    source: reward("const held = []; for (;;) { try { held.push(new Uint8Array(1 << 20)); } catch {} }"),
    samples: ["timeout", "memory", "exception"],
  },
  {
    name: "deep recursion",
    source: reward("const f = (n) => f(n + 1) + 1; return completions.map(() => f(0));"),
    samples: ["exception", "memory", "crashed"],
  },
  {
    name: "deep JSON",
    source: reward("return completions.map(() => JSON.parse('['.repeat(1e6)).length);"),
    samples: ["exception", "memory", "crashed"],
  },
  { name: "NaN", source: reward("return completions.map(() => NaN);"), samples: ["not_finite"] },
  { name: "infinity", source: reward("return completions.map(() => Infinity);"), samples: ["not_finite"] },
  { name: "wrong length", source: reward("return [0.5];"), samples: ["wrong_length"] },
  { name: "not a number", source: reward("return completions.map(() => 'much');"), samples: ["not_a_number"] },
  { name: "exception", source: reward("throw new Error('no');"), samples: ["exception"] },
  {
    name: "an array that lies about its length",
    source: reward("return new Proxy([], { get: (t, k) => (k === 'length' ? 1e9 : 1) });"),
    samples: ["wrong_length", "timeout", "memory", "exception", "not_a_number"],
  },
  {
    name: "JSON is patched",
    source: reward(
      'JSON.stringify = () => \'{"ok":true,"values":[{"value":1e999}]}\'; JSON.parse = () => ({}); Array.prototype.map = () => []; return [1, 2];',
    ),
    samples: ["score", "crashed", "wrong_length", "exception", "not_a_number"],
  },
  {
    name: "an answer of megabytes",
    source: reward("throw new Error('x'.repeat(1e7));"),
    samples: ["exception", "memory"],
  },
  {
    name: "flood of prints",
    source: reward("for (let i = 0; i < 2000; i++) console.log('x'.repeat(100000));", scores),
    samples: ["score", "timeout", "memory"],
  },
  {
    name: "what the host has",
    source: reward(
      "if ([typeof process, typeof Bun, typeof require, typeof fetch, typeof WebAssembly, typeof Deno].some((t) => t !== 'undefined'))",
      won,
      scores,
    ),
    samples: ["score"],
  },
  {
    name: "the constructor's constructor",
    source: reward(
      "if (this?.constructor?.constructor?.('return typeof process')() === 'object' || (() => {}).constructor('return typeof Bun')() !== 'undefined')",
      won,
      scores,
    ),
    samples: ["score", "exception"],
  },
  {
    name: "importing a module",
    source: `import fs from "node:fs";\n${reward("fs.readFileSync('{secret}');", won)}`,
    rejected: ["exception", "syntax", "signature"],
  },
  {
    name: "a macro, which the transpiler itself would run",
    language: "typescript",
    source: `import { writeFileSync } from "node:fs" with { type: "macro" };\nwriteFileSync("{marker}", "x");\n${reward(won)}`,
    rejected: ["exception", "syntax", "signature"],
  },
  {
    name: "importing a module later",
    source:
      "export async function reward({ completions }) { const fs = await import('node:fs'); fs.readFileSync('{secret}'); return completions.map(() => 666); }",
    samples: ["exception"],
  },
  {
    name: "exiting through globals",
    source: reward(
      "globalThis.quit?.(0); globalThis.exit?.(0); globalThis.std?.exit?.(0); globalThis.os?.exec?.(['true']);",
      scores,
    ),
    samples: ["score"],
  },
];
