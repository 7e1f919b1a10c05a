/** Rollouts that every test and process makes identically. Run as a program, it prints the result. */
import { join } from "node:path";
import { openRoller } from "../../src/workers/trainer/rollouts/roller.ts";
import type { Roller, RollerOptions, Rollout, RolloutRequest } from "../../src/workers/trainer/rollouts/types.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";

export const TINY = join(import.meta.dir, "../../models/verk-tiny/verk-tiny.gguf");
export const SAMPLING = { temperature: 2.5, topP: 1, topK: 0, minP: 0, maxTokens: 24 };
const QUESTIONS = ["What is 7 + 5?", "Reverse the word: garden", "Hello", "Which number is larger: 48 or 84?", "Who?"];

export const openTiny = (options: Partial<RollerOptions> = {}): Promise<Roller> =>
  openRoller({
    dataDir: tempDir(),
    modelPath: TINY,
    contextLength: 128,
    parallel: 12,
    threads: 1,
    gpus: [],
    ...options,
  });

export const promptOf = (roller: Roller, question: string): Int32Array =>
  roller.tokenize(`<|im_start|>user\n${question}<|im_end|>\n<|im_start|>assistant\n`, { addBos: false, special: true });

/** More samples than slots, in groups of different sizes. */
export const requestsOf = (roller: Roller, seed: number): RolloutRequest[] =>
  QUESTIONS.map((question, i) => ({ prompt: promptOf(roller, question), samples: 4 + i, seed: seed + i }));

/** F32, because its sums depend on the batch's rows; those of other types do not, on this processor. */
export const openTouchy = (options: Partial<RollerOptions> = {}): Promise<Roller> => {
  const modelPath = makeModel(tempDir(), { arch: "qwen2", type: "F32", context: 512, layers: 3 });
  return openTiny({ modelPath, contextLength: 320, ...options });
};

export const longRequests = (seed: number, shift = 0): RolloutRequest[] =>
  Array.from({ length: 5 }, (_, i) => ({
    prompt: Int32Array.from({ length: 50 + 60 * i }, (_, at) => 97 + ((7 * at + 3 * (i + shift)) % 20)),
    samples: 4 + i,
    seed: seed + i,
  }));

/** Bit for bit: every token and every log-probability. */
export const digest = (rolled: readonly Rollout[][]): string =>
  rolled
    .flat()
    .map(
      ({ tokens, logps, truncated }) =>
        `${tokens.join(" ")} ${Buffer.from(logps!.buffer).toString("hex")} ${truncated}`,
    )
    .join("\n");

if (import.meta.main) {
  const roller = await openTouchy();
  process.stdout.write(digest(await roller.roll(longRequests(7), SAMPLING)));
  await roller.close();
}
