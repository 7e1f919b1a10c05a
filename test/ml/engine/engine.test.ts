// tier: all (trains models)
import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { getFloats, putBytes } from "../../../src/native/ggml/ggml.ts";
import { openPatterns } from "../../../src/workers/trainer/engine/dropout.ts";
import { openOptimizer, type Step } from "../../../src/workers/trainer/engine/optimizer.ts";
import type { Lora } from "../../../src/workers/trainer/engine/weights.ts";
import { tempDir } from "../../harness.ts";
import type { ModelOptions } from "../../models.ts";
import { logpsOf } from "../../serving/reference.ts";
import { gradientError, graphOf, openModel, random, randomBatch, SMALL, shape } from "./kit.ts";
import { shake } from "./shake.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const ARCHITECTURES = ["llama", "qwen2", "qwen3"] as const;
const model = (arch: ModelOptions["arch"], type: ModelOptions["type"] = "F32"): ModelOptions => ({
  arch,
  type,
  ...SMALL,
});
const TARGETS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
const LORA: Lora = { rank: 4, alpha: 8, rslora: false, targets: TARGETS };

describe("gradients are the slope of the loss", () => {
  const WAYS = [
    ["at once", {}],
    ["with layers computed again", { checkpoints: true }],
    ["with attention in blocks", { attentionBlock: 5 }],
    ["with the output layer in chunks", { headChunk: 7 }],
    ["with a temperature", { temperature: 0.7 }],
    ["with some tokens that have no target", { scored: 20 }],
    ["with all of it", { checkpoints: true, attentionBlock: 4, headChunk: 5, scored: 19, temperature: 1.3 }],
  ] as const;
  for (const arch of ARCHITECTURES) {
    test.each(WAYS)(`${arch}, all weights, %s`, (_name, over) => {
      const opened = openModel(dir, model(arch));
      expect(gradientError(opened, shape(over)).worst).toBeLessThan(1e-3);
      opened.close();
    });
    test(`${arch}, adapter`, () => {
      const opened = openModel(dir, model(arch), LORA);
      shake(opened, 3);
      expect(opened.weights.trainable).toHaveLength(2 * TARGETS.length * SMALL.layers);
      expect(gradientError(opened, shape({ checkpoints: true })).worst).toBeLessThan(1e-3);
      opened.close();
    });
  }
  test.each([[["attn_q"]], [["attn_q", "attn_k"]], [["attn_v"]], [["ffn_down"]]])(
    "an adapter of %p alone",
    (targets) => {
      const opened = openModel(dir, model("llama"), { ...LORA, targets });
      shake(opened, 3);
      expect(gradientError(opened, shape()).worst).toBeLessThan(1e-3);
      opened.close();
    },
  );

  test("all weights and the embeddings, with noise on them", () => {
    const opened = openModel(dir, model("llama"));
    expect(gradientError(opened, shape({ noise: true })).worst).toBeLessThan(1e-3);
    const batch = randomBatch(shape(), opened.architecture.vocab);
    const [noisy, plain] = [graphOf(opened, shape({ noise: true })), graphOf(opened, shape())];
    expect(noisy.forward(batch)).toEqual(plain.forward(batch)); // a batch without noise
    const noise = new Float32Array(batch.ids.length * opened.architecture.width).fill(0.3);
    expect(noisy.forward({ ...batch, noise })).not.toEqual(plain.forward(batch));
    for (const each of [noisy, plain]) each.free();
    opened.close();
  });

  test("adapter, with dropout, layers computed again or not", () => {
    const opened = openModel(dir, model("qwen3"), LORA);
    shake(opened, 3);
    const widths = [32, 64, 4 * opened.architecture.headLength];
    const dropout = openPatterns(opened.backend, widths, { rate: 0.3, seed: 1 });
    for (const checkpoints of [false, true])
      expect(gradientError(opened, shape({ checkpoints, dropout })).worst).toBeLessThan(1e-3);
    dropout.free();
    opened.close();
  });

  test("all weights, with more tokens than the vocabulary has", () => {
    const opened = openModel(dir, { ...model("llama"), layers: 1 });
    expect(opened.architecture.vocab).toBeLessThan(24 * 12);
    expect(gradientError(opened, shape({ rows: 24 })).worst).toBeLessThan(1e-3);
    opened.close();
  }, 120_000);
});

describe("sequences that share a row do not change the result", () => {
  test.each([...ARCHITECTURES, "mistral3", "gemma3"] as const)(
    "%s scores each sequence as if it were alone",
    (arch) => {
      const opened = openModel(dir, model(arch));
      const of = shape({ trains: false });
      const batch = randomBatch(of, opened.architecture.vocab);
      const graph = graphOf(opened, of);
      const together = graph.forward(batch);
      const alone = graphOf(opened, shape({ rows: 1, trains: false }));
      for (const row of [0, 1]) {
        for (const sequence of [0, 1]) {
          const positions = [...batch.sequences.keys()].filter(
            (i) => Math.floor(i / of.tokens) === row && batch.sequences[i] === sequence,
          );
          const one = randomBatch(shape({ rows: 1 }), opened.architecture.vocab);
          for (const key of ["ids", "positions", "sequences", "targets"] as const) {
            one[key].fill(key === "sequences" || key === "targets" ? -1 : 0);
            positions.forEach((at, i) => {
              one[key][i] = key === "sequences" ? 0 : (batch[key][at] as number);
            });
          }
          const scores = alone.forward(one);
          positions.forEach((at, i) => {
            expect(Math.abs((scores[i] as number) - (together[at] as number))).toBeLessThan(1e-4);
          });
        }
      }
      graph.free();
      alone.free();
      opened.close();
    },
  );
});

describe("the trainer computes the same as llama.cpp", () => {
  const KINDS = ARCHITECTURES.flatMap((arch) => (["F32", "F16", "Q8_0"] as const).map((type) => [arch, type] as const));
  test.each(KINDS)("%s in %s", (arch, type) => {
    const opened = openModel(dir, model(arch, type), LORA);
    const of = shape({ rows: 1, tokens: 24, trains: false });
    const graph = graphOf(opened, of);
    const next = random(11);
    const ids = Int32Array.from({ length: of.tokens }, () =>
      Math.floor(((next() + 1) / 2) * opened.architecture.vocab),
    );
    const targets = Int32Array.from(ids, (_, i) => ids[i + 1] ?? -1);
    const positions = Int32Array.from(ids.keys());
    const scores = graph.forward({ ids, positions, sequences: new Int32Array(of.tokens), targets });
    const theirs = logpsOf(opened.path, ids);
    let [apart, whole] = [0, 0];
    for (let i = 0; i < of.tokens - 1; i++) {
      const expected = theirs[i]?.[targets[i] as number] as number;
      apart += ((scores[i] as number) - expected) ** 2;
      whole += expected ** 2;
    }
    expect(Math.sqrt(apart / whole)).toBeLessThan(1e-2);
    graph.free();
    opened.close();
  });
});

describe("AdamW", () => {
  const HOW: Step = {
    learningRate: 1e-2,
    beta1: 0.9,
    beta2: 0.95,
    epsilon: 1e-8,
    weightDecay: 0.1,
    maxNorm: 0.5,
    divisor: 2,
  };

  test("makes the steps of its definition, and resumes from saved state", () => {
    const opened = openModel(dir, model("llama"), LORA);
    const { weights, backend } = opened;
    shake(opened, 7);
    const optimizer = openOptimizer(weights);
    const values = weights.trainable.map(({ tensor }) => Float64Array.from(getFloats(backend.ggml, tensor)));
    const first = values.map((each) => new Float64Array(each.length));
    const second = values.map((each) => new Float64Array(each.length));
    const next = random(9);
    for (let step = 1; step <= 3; step++) {
      const gradients = values.map((each) => Float32Array.from(each, () => next()));
      weights.trainable.forEach(({ gradient }, i) => {
        putBytes(backend.ggml, gradient, gradients[i] as Float32Array);
      });
      const norm = Math.sqrt(gradients.reduce((sum, g) => sum + g.reduce((s, x) => s + x * x, 0), 0)) / HOW.divisor;
      expect(optimizer.step(HOW)).toBeCloseTo(norm, 3);
      const scale = HOW.maxNorm / norm / HOW.divisor;
      values.forEach((value, t) => {
        for (let i = 0; i < value.length; i++) {
          const g = (gradients[t]?.[i] as number) * scale;
          const [m, v] = [first[t] as Float64Array, second[t] as Float64Array];
          m[i] = HOW.beta1 * (m[i] as number) + (1 - HOW.beta1) * g;
          v[i] = HOW.beta2 * (v[i] as number) + (1 - HOW.beta2) * g * g;
          const mean = (m[i] as number) / (1 - HOW.beta1 ** step);
          const spread = Math.sqrt((v[i] as number) / (1 - HOW.beta2 ** step)) + HOW.epsilon;
          value[i] =
            (value[i] as number) * (1 - HOW.learningRate * HOW.weightDecay) - (HOW.learningRate * mean) / spread;
        }
      });
      if (step === 2) optimizer.restore(optimizer.steps, optimizer.moments());
    }
    weights.trainable.forEach(({ tensor }, t) => {
      getFloats(backend.ggml, tensor).forEach((value, i) => {
        expect(Math.abs(value - (values[t]?.[i] as number))).toBeLessThan(1e-5);
      });
    });
    optimizer.free();
    opened.close();
  });

  test("decay leaves norms and biases as they are", () => {
    const opened = openModel(dir, model("qwen2"), null);
    const { weights, backend } = opened;
    const read = () => weights.trainable.map(({ tensor }) => getFloats(backend.ggml, tensor));
    const before = read();
    const optimizer = openOptimizer(weights);
    weights.clearGradients();
    optimizer.step(HOW);
    const after = read();
    const kinds = { norms: 0, matrices: 0 };
    weights.trainable.forEach(({ shape: { length } }, t) => {
      const left = length === 1 ? 1 : 1 - HOW.learningRate * HOW.weightDecay;
      kinds[length === 1 ? "norms" : "matrices"]++;
      after[t]!.forEach((value, i) => {
        expect(Math.abs(value - before[t]![i]! * left)).toBeLessThan(1e-6);
      });
    });
    expect(Math.min(kinds.norms, kinds.matrices)).toBeGreaterThan(5);
    optimizer.free();
    opened.close();
  });

  test("a gradient that is not finite changes nothing", () => {
    const opened = openModel(dir, model("llama"), LORA);
    const { weights, backend } = opened;
    const optimizer = openOptimizer(weights);
    const [one] = weights.trainable;
    const before = getFloats(backend.ggml, one!.tensor);
    putBytes(backend.ggml, one!.gradient, new Float32Array(before.length).fill(Number.NaN));
    expect(optimizer.step(HOW)).toBeNaN();
    expect([getFloats(backend.ggml, one!.tensor), optimizer.steps]).toEqual([before, 0]);
    optimizer.free();
    opened.close();
  });

  test.each([
    ["all weights", "F32", null, 0.1],
    ["an adapter on F32", "F32", LORA, 0.6],
    ["an adapter on Q8_0", "Q8_0", LORA, 0.6],
  ] as const)("%s: the loss of a repeated text falls", (_name, type, lora, share) => {
    const opened = openModel(dir, model("qwen3", type), lora);
    const { weights } = opened;
    if (lora) shake(opened, 5);
    const of = shape();
    const graph = graphOf(opened, of);
    const batch = randomBatch(of, opened.architecture.vocab);
    const scored = batch.targets.filter((target) => target >= 0).length;
    const tokenWeights = Float32Array.from(batch.targets, (target) => (target < 0 ? 0 : 1 / scored));
    const optimizer = openOptimizer(weights);
    const losses: number[] = [];
    for (let step = 0; step < 150; step++) {
      weights.clearGradients();
      losses.push(-graph.forward(batch).reduce((sum, logp) => sum + logp, 0) / scored);
      graph.backward(tokenWeights);
      optimizer.step({ ...HOW, learningRate: 1e-2, weightDecay: 0, maxNorm: 1, divisor: 1 });
    }
    expect(losses.at(-1)).toBeLessThan((losses[0] as number) * share);
    optimizer.free();
    graph.free();
    opened.close();
  });
});
