/** Sizes of micro-batches. They follow the memory estimate, so that the estimate is right. */
import type { Header } from "../../../lib/gguf/parse.ts";
import { blocksFor, GRAPHS_KEPT, holdsTurned, microTokens, recomputes } from "../../../lib/training/memory.ts";
import { activationBytes, type Dimensions, type Micro, traitsOf } from "../../../lib/training/memory_graph.ts";
import type { Architecture } from "../engine/architecture.ts";
import { EXACT_ROWS } from "../engine/fused/sampler/exact.ts";
import type { GraphShape } from "../engine/inputs.ts";
import { type MicroBatch, roundUp, type Sizes } from "./batches.ts";
import type { ModelOptions, Training } from "./types.ts";

export type MicroPlan = {
  sizes: Sizes;
  /** Total size of kept graphs; older ones are freed beyond it. */
  keptBytes: number;
  /** Returns the graph shape for a micro-batch; `trains` false: forward only. */
  shape: (micro: MicroBatch, trains: boolean) => GraphShape;
};

/** Number of row and micro-batch sizes between two powers of two. On the CPU a graph is cheap, and padding is not. */
const STEPS = { cpu: 8, cuda: 4 } as const;

type Base = { architecture: Architecture; header: Header; isFused: boolean; isExact?: boolean };

type Options = Pick<ModelOptions, "device" | "microDivisor" | "maxLength" | "temperature">;

/** `training` null: the model only scores. */
export function planMicro(
  options: Options,
  training: Training | null,
  { architecture, header, isFused, isExact = false }: Base,
): MicroPlan {
  const { microDivisor, maxLength, temperature } = options;
  const hasNoise = !!training?.noiseAlpha;
  const device = options.device.kind;
  const of = dimensionsOf(architecture);
  // Pieces with a common beginning would have a common noise.
  const shares = !training?.lora?.dropout && !hasNoise;
  const attention = isFused ? ("seen" as const) : ("squared" as const);
  const align = isExact ? EXACT_ROWS : 1;
  const sizes = { tokens: microTokens(device, microDivisor), steps: STEPS[device], shares, attention, align };
  const full = ({ tokens, rows, scored }: Pick<MicroBatch, "tokens" | "rows" | "scored">): Micro => {
    const micro = {
      tokens,
      rows,
      scored,
      ...blocksFor(of, { tokens, rows, scored }, { device, microDivisor, compares: training?.divergence != null }),
      trainsAll: training?.lora === null,
      weightBytes: header.dataBytes / elementsOf(header),
      isFused,
      holdsTurned: holdsTurned(device, header.dataBytes),
    };
    const mayRecompute = training?.checkpointing ?? true;
    return { ...micro, recomputes: mayRecompute && recomputes(of, micro, { device, microDivisor }) };
  };
  const longest = roundUp(Math.max(2, maxLength), sizes.steps);
  const tokens = isFused ? Math.max(sizes.tokens, longest) : longest;
  const rows = Math.max(1, Math.floor(sizes.tokens / tokens));
  return {
    sizes,
    keptBytes: GRAPHS_KEPT * activationBytes(of, full({ tokens, rows, scored: tokens * rows })),
    shape(micro, trains) {
      const { attentionBlock, headChunk, recomputes: checkpoints } = full(micro);
      const sized = {
        tokens: micro.tokens,
        rows: micro.rows,
        scored: micro.scored,
        attentionBlock,
        headChunk,
        temperature,
      };
      const noise = hasNoise ? { noise: true } : {};
      const divergence = trains && training?.divergence ? { divergence: training.divergence } : {};
      return { ...sized, ...noise, ...divergence, trains, checkpoints: trains && checkpoints };
    },
  };
}

function dimensionsOf(architecture: Architecture): Dimensions {
  const { name, experts, forward } = architecture;
  const traits = traitsOf(name);
  if (!experts) return { ...architecture, ...traits };
  const { used, count } = experts;
  return { ...architecture, ...traits, forward: used * forward, mixture: { used, forward: count * forward } };
}

const elementsOf = ({ tensors }: Header) => [...tensors.values()].reduce((sum, { elements }) => sum + elements, 0);
