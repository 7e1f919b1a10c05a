/** Structs by value reach a C function whole, and come back whole, on the architecture that this runs on. */

import { dlopen, type Pointer, ptr } from "bun:ffi";
import { beforeAll, describe, expect, test } from "bun:test";
import { join, resolve } from "node:path";
import { keepOnlyErrors } from "../../src/native/llama/symbols.ts";
import { DEFAULTS_WORDS, GRAPH_WORDS, ggmlCalls, llamaCalls, openShim } from "../../src/native/shim/shim.ts";
import { tempDir } from "../harness.ts";

const library = join(tempDir(), "by_value.so");
const source = resolve(import.meta.dir, "by_value.c");
let llama: ReturnType<typeof llamaCalls>;
let ggml: ReturnType<typeof ggmlCalls>;

beforeAll(() => {
  const built = Bun.spawnSync(["gcc", "-shared", "-fPIC", "-O2", "-o", library, source], { stderr: "pipe" });
  if (!built.success) throw new Error(built.stderr.toString());
  const shim = openShim("");
  llama = llamaCalls(shim, library);
  ggml = ggmlCalls(shim, library);
});

const words = (from: number, count: number) => Array.from({ length: count }, (_, i) => BigInt(from + i));
const sum = (values: readonly bigint[]) => values.reduce((total, each, i) => total + BigInt(i + 1) * each, 0n);

test("a struct is returned", () => {
  const into = new BigUint64Array(DEFAULTS_WORDS);
  llama.llama_model_default_params(into);
  expect([...into.subarray(0, 10)]).toEqual(words(100, 10));
  llama.llama_context_default_params(into);
  expect([...into.subarray(0, 20)]).toEqual(words(200, 20));
  llama.llama_model_quantize_default_params(into);
  expect([...into.subarray(0, 10)]).toEqual(words(100, 10));
  const view = new BigUint64Array(GRAPH_WORDS);
  ggml.ggml_graph_view(view, 5 as Pointer, 6, 7);
  expect([...view.subarray(0, 4)]).toEqual([5n, 6n, 7n, 0n]);
});

test("a struct is passed behind another argument, and alone", () => {
  const params = BigUint64Array.from(words(1, DEFAULTS_WORDS));
  expect(Number(llama.llama_model_load_from_file(Buffer.from("a\0"), params))).toBe(97 + Number(sum(words(1, 10))));
  expect(Number(llama.llama_init_from_model(7 as Pointer, params))).toBe(7 + Number(sum(words(1, 20))));
  expect(Number(ggml.ggml_init(4096, true))).toBe(4096);
  expect(Number(ggml.ggml_init(4096, false))).toBe(1);
});

test("a batch is passed field by field", () => {
  const [tokens, positions, counts] = [Int32Array.of(2, 3), Int32Array.of(10, 20), Int32Array.of(1, 1)];
  const ids = Int32Array.of(100, 200);
  const lists = BigUint64Array.of(BigInt(ptr(ids)), BigInt(ptr(ids, 4)));
  const code = llama.llama_decode(1000 as Pointer, 2, tokens, positions, counts, lists, Int8Array.of(0, 5));
  expect(code).toBe(1000 + 20 + 60 + 100 + 200 + 5);
});

describe("the logger", () => {
  const run = (lines: readonly (readonly [level: number, text: string])[]) => {
    const shim = openShim("");
    const { symbols } = dlopen(library, { say: { args: ["ptr", "i32", "ptr"], returns: "void" } });
    const callbacks: Pointer[] = [];
    const log = keepOnlyErrors({ llama_log_set: (callback) => callbacks.push(callback) }, shim);
    log.forgetError();
    for (const [level, text] of lines) {
      const bytes = Buffer.from(`${text}\0`);
      symbols.say(callbacks[0]!, level, ptr(bytes));
    }
    return log;
  };
  test("keeps the first error until it is cleared", () => {
    const log = run([
      [2, "a hint"],
      [4, "first, expected here\n"],
      [4, "second, expected here\n"],
    ]);
    expect(log.firstError()).toBe("first, expected here");
    log.forgetError();
    expect(log.firstError()).toBe("");
  });

  test("cuts an error that is too long", () => {
    expect(run([[4, `${"x".repeat(1100)}\n`]]).firstError()).toBe("x".repeat(1023));
  });
});
