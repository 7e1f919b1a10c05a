/** A request for more memory than available fails with a typed error and does no other harm. */
import { openRoller } from "../../src/workers/trainer/rollouts/roller.ts";
import type { Trainee } from "../../src/workers/trainer/trainee/trainee.ts";
import { asTrouble } from "../../src/workers/trainer/trouble.ts";
import { LORA } from "../../test/ml/trainee/kit.ts";
import { smallModel } from "./learning.ts";
import { opened, teach } from "./rolling.ts";
import type { Part } from "./setup.ts";

const ABSURD = { "our kernels": 2 ** 26, "ggml alone": 2 ** 20 }; // tokens of one piece: terabytes of activations
const PARALLEL = 256;
const CONTEXT = 2 ** 20;

/** The type and the message of an error. */
async function failure(act: () => Promise<unknown>): Promise<{ kind: string; words: string }> {
  try {
    await act();
    return { kind: "none", words: "it had the memory" };
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    return { kind: asTrouble(error)?.kind ?? "another", words: words.split("\n")[0] ?? "" };
  }
}

const absurd = (trainee: Trainee, tokens: number) =>
  trainee.learn([[{ tokens: new Int32Array(tokens), from: tokens - 8 }]], () => [new Float32Array(8)], {
    dropoutSeed: 1,
  });

export const memory: Part = async function* (setup) {
  for (const [how, type] of [
    ["our kernels", "BF16"],
    ["ggml alone", "F32"],
  ] as const) {
    const trainee = await opened(setup, await smallModel(setup, "llama", type), LORA);
    await teach(trainee, 1, 0.01);
    const { kind, words } = await failure(() => absurd(trainee, ABSURD[how]));
    const what = `a micro-batch of ${ABSURD[how]} tokens, ${type}`;
    yield { what, value: `${kind}: ${words}`, target: "lacking_memory", ok: kind === "lacking_memory" };
    await teach(trainee, 1, 0.01); // the trainee still works
    yield {
      what: `a step after it, ${type}`,
      value: `${trainee.steps} steps`,
      target: "2 steps",
      ok: trainee.steps === 2,
    };
    trainee.close();
  }
  const modelPath = await smallModel(setup, "llama", "BF16");
  const { dir, machine } = setup;
  const { kind, words } = await failure(async () => {
    const roller = await openRoller({
      dataDir: dir,
      modelPath,
      contextLength: CONTEXT,
      parallel: PARALLEL,
      ...machine,
    });
    await roller.close();
  });
  const what = `a sampler with ${PARALLEL} × ${CONTEXT} tokens`;
  yield { what, value: `${kind}: ${words}`, target: "lacking_memory", ok: kind === "lacking_memory" };
};
