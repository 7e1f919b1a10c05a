import { afterAll, describe, expect, test } from "bun:test";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { canCompute } from "../native/emulation/choice.ts";
import { closeEngines, RANDOM, say, sayOne, testEngine, tokens } from "./engines.ts";

const dir = tempDir();
afterAll(closeEngines);

describe.skipIf(!canCompute)("the engine on our own kernels, in emulation", () => {
  const path = makeModel(dir, { arch: "llama", type: "F16", width: 128, heads: 2, kvHeads: 1 });
  const own = () => testEngine(path, { decoder: "own" });

  test("greedy text equals the library's", async () => {
    const [mine, library] = [await own(), await testEngine(path)];
    expect(mine.facts).toEqual({ ...library.facts, memoryBytes: mine.facts.memoryBytes, decoder: mine.facts.decoder });
    expect(mine.facts.decoder).toBe("Verk's own kernels decode");
    const prompt = tokens(mine, "once upon a time there was");
    const [a, b] = [await sayOne(mine, { prompt }), await sayOne(library, { prompt })];
    expect(a.tokens).toEqual(b.tokens);
    expect(a.text).toBe(b.text);
  });
});
