/** How much of the work is done at once, from what the device has. */
import type { Device } from "../../native/ggml.ts";
import type { Architecture } from "./engine/architecture.ts";
import type { MicroBatch, Sizes } from "./trainee_batches.ts";

export type MicroPlan = {
  sizes: Sizes;
  /** Of graphs together: older ones are given up beyond it. */
  keptBytes: number;
  blocks: (micro: Pick<MicroBatch, "tokens" | "rows" | "scored">) => { attentionBlock: number; headChunk: number };
};

const MIB = 2 ** 20;
const CPU = { tokens: 2048, steps: 8, keptBytes: 2048 * MIB, table: 256 * MIB, scores: 128 * MIB };
const CUDA = { tokens: 8192, steps: 4, keptBytes: 65_536 * MIB, table: 1024 * MIB, scores: 1024 * MIB };

type Use = { device: Device; microDivisor: number };

export function planMicro({ device, microDivisor }: Use, { architecture }: { architecture: Architecture }): MicroPlan {
  const limits = device.kind === "cpu" ? CPU : CUDA;
  return {
    sizes: { tokens: Math.max(1, Math.floor(limits.tokens / microDivisor)), steps: limits.steps },
    keptBytes: limits.keptBytes,
    blocks({ tokens, rows, scored }) {
      const query = tokens * rows * architecture.heads * 4; // bytes of one query's scores, in all rows and heads
      const row = architecture.vocab * 4; // bytes of one token's probabilities
      return {
        attentionBlock: within(tokens, limits.scores / microDivisor / query),
        headChunk: within(scored, limits.table / microDivisor / row),
      };
    },
  };
}

const SMALLEST = 32;
/** As few equal parts as keep each below the limit. */
function within(count: number, most: number): number {
  const parts = Math.ceil(count / Math.max(SMALLEST, Math.floor(most)));
  return Math.ceil(count / parts);
}
