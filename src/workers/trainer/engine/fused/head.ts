/**
 * Log-probabilities of the scored tokens, in chunks. The gradient of Σ w · -log p is w times a row that does not depend
 * on w: it is made here, on the way forward, while the probabilities exist, and multiplied on the way back.
 */
import type { Kernels } from "../../../../native/cuda/kernels.ts";
import { type Arena, type Buffer, past } from "./memory.ts";
import { rowThreads } from "./project.ts";

export type HeadSize = {
  vocab: number;
  width: number;
  /** Rows that are scored, and those of a chunk. */
  scored: number;
  chunk: number;
  temperature: number;
};

export type Head = {
  /** [scored] */
  readonly targets: Buffer;
  /** [scored]: which token each is; below zero: none. Null: all are scored, in their order. */
  readonly places: Buffer | null;
  readonly logps: Buffer;
  readonly entropies: Buffer | null;
  /** [scored, width]: Σ over the vocabulary of (p - 1 at the target, p elsewhere) · row of the table. */
  readonly gradient: Buffer | null;
  run: (kernels: Kernels, normed: Buffer, table: number) => void;
};

const MOST_CHUNK = 2048; // larger ones gain nothing, and logits are the largest thing there is

export function wantHead(
  arena: Arena,
  size: HeadSize,
  want: { all: boolean; entropies: boolean; gradient: boolean },
): Head {
  const { vocab, width, scored, temperature } = size;
  const chunk = Math.min(size.chunk, MOST_CHUNK, scored);
  const stride = Math.ceil(vocab / 8) * 8;
  const targets = arena.want("i32", scored);
  const places = want.all ? null : arena.want("i32", scored);
  const taken = want.all ? null : arena.want("bf16", scored * width);
  const logps = arena.want("f32", scored);
  const entropies = want.entropies ? arena.want("f32", scored) : null;
  const gradient = want.gradient ? arena.want("bf16", scored * width) : null;
  const logits = arena.want("f32", chunk * stride);
  const shares = want.gradient ? arena.want("bf16", chunk * stride) : null;
  return {
    targets,
    places,
    logps,
    entropies,
    gradient,
    run(kernels, normed, table) {
      const { products } = kernels;
      if (places && taken)
        kernels.launch("take_rows", { grid: [scored, 1, 1], threads: rowThreads(width) }, [
          ...[normed.at, places.at, taken.at, width],
        ]);
      const rowsAt = (taken ?? normed).at;
      const by = 1 / temperature;
      for (let from = 0; from < scored; from += chunk) {
        const rows = Math.min(chunk, scored - from);
        const some = { at: past("bf16", rowsAt, from * width), stride: width };
        const weights = { at: table, stride: width };
        products.byRows(
          some,
          weights,
          { at: logits.at, stride, f32: true, by },
          { rows, columns: vocab, depth: width },
        );
        kernels.launch("target_logps", { grid: [rows, 1, 1], threads: 512 }, [
          ...[logits.at, stride, past("i32", targets.at, from), past("f32", logps.at, from)],
          ...[entropies ? past("f32", entropies.at, from) : 0, shares?.at ?? 0, stride, vocab],
        ]);
        if (!gradient || !shares) continue;
        const to = { at: past("bf16", gradient.at, from * width), stride: width, by };
        products.plain({ at: shares.at, stride }, weights, to, { rows, columns: width, depth: vocab });
      }
    },
  };
}
