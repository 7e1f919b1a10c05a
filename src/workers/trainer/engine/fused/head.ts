/**
 * Log-probabilities of the scored tokens, in chunks. The gradient of Σ w · -log p is w times a row that does not depend
 * on w. The forward pass computes that row while the probabilities exist; the backward pass multiplies it.
 */
import type { Matrix } from "../../../../native/cuda/kernel_products.ts";
import type { Kernels } from "../../../../native/cuda/kernels.ts";
import { type Arena, type Buffer, past } from "./memory.ts";
import { rowThreads } from "./project.ts";
import type { Exact, Rows } from "./sampler/exact.ts";
import type { Table } from "./weights.ts";

export type HeadSize = {
  vocab: number;
  width: number;
  /** Number of scored rows, and of rows in a chunk. */
  scored: number;
  chunk: number;
  temperature: number;
  /** Factor of the logits, and their limit before the temperature; 0: none. */
  scale: number;
  cap: number;
};

export type Head = {
  /** [scored] */
  readonly targets: Buffer;
  /** [scored]: the token of each row; below zero: none. Null: all tokens are scored, in order. */
  readonly indexes: Buffer | null;
  readonly logps: Buffer;
  readonly entropies: Buffer | null;
  /** [scored, width]: Σ over the vocabulary of (p - 1 at the target, p elsewhere) · row of the table. */
  readonly gradient: Buffer | null;
  run: (kernels: Kernels, normed: Buffer, table: Table, exact: Exact | null) => void;
};

const LIMIT_BLOCKS = 8; // for one row of logits
const MOST_CHUNK = 2048; // larger chunks gain nothing, and logits are the largest buffer

export function wantHead(
  arena: Arena,
  size: HeadSize,
  want: { all: boolean; entropies: boolean; gradient: boolean; pieces: boolean },
): Head {
  const { vocab, width, scored, temperature, scale, cap } = size;
  const chunk = Math.min(size.chunk, MOST_CHUNK, scored);
  const stride = Math.ceil(vocab / 8) * 8;
  const targets = arena.want("i32", scored);
  const indexes = want.all ? null : arena.want("i32", scored);
  const taken = want.all ? null : arena.want("bf16", scored * width);
  const logps = arena.want("f32", scored);
  const entropies = want.entropies ? arena.want("f32", scored) : null;
  const gradient = want.gradient ? arena.want("bf16", scored * width) : null;
  const logits = arena.want("f32", chunk * stride);
  const shares = want.gradient ? arena.want("bf16", chunk * stride) : null;
  const sum = want.gradient && want.pieces ? arena.want("f32", chunk * width) : null;
  return {
    targets,
    indexes,
    logps,
    entropies,
    gradient,
    run(kernels, normed, table, exact) {
      const { products } = kernels;
      if (indexes && taken)
        kernels.launch("take_rows", { grid: [scored, 1, 1], threads: rowThreads(width) }, [
          ...[normed.at, indexes.at, taken.at, width],
        ]);
      const rowsAt = (taken ?? normed).at;
      const by = scale / temperature;
      const most = cap / temperature;
      for (let from = 0; from < scored; from += chunk) {
        const rows = Math.min(chunk, scored - from);
        const some = { at: past("bf16", rowsAt, from * width), stride: width };
        if (exact)
          exactLogits(
            kernels,
            exact,
            { x: some, table: { ...table.rows(0, vocab), rows: vocab } },
            { at: logits.at, stride, rows, temperature },
          );
        else
          for (const { first, count } of piecesOf(vocab, table)) {
            const to = { at: past("f32", logits.at, first), stride, f32: true, by: cap === 0 ? by : scale / cap };
            products.byRows(some, table.rows(first, count), to, { rows, columns: count, depth: width });
          }
        const byVocab = { grid: [rows, LIMIT_BLOCKS, 1] as const, threads: 256 };
        if (cap !== 0) kernels.launch("limit_logits", byVocab, [logits.at, stride, vocab, most]);
        kernels.launch("target_logps", { grid: [rows, 1, 1], threads: 512 }, [
          ...[logits.at, stride, past("i32", targets.at, from), past("f32", logps.at, from)],
          ...[entropies ? past("f32", entropies.at, from) : 0, shares?.at ?? 0, stride, vocab],
        ]);
        if (!gradient || !shares) continue;
        if (cap !== 0)
          kernels.launch("limit_logits_back", byVocab, [logits.at, stride, shares.at, stride, vocab, most]);
        const to = { at: past("bf16", gradient.at, from * width), stride: width, by };
        const into = sum ? { at: sum.at, stride: width, by, f32: true } : to;
        for (const { first, count } of piecesOf(vocab, table)) {
          const left = { at: past("bf16", shares.at, first), stride };
          const extent = { rows, columns: width, depth: count };
          products.plain(left, table.rows(first, count), { ...into, adds: first > 0 }, extent);
        }
        if (sum)
          kernels.launch("round_rows", { grid: [rows, 1, 1], threads: rowThreads(width) }, [sum.at, to.at, width]);
      }
    },
  };
}

/** The sampler multiplies logits in F32, and by one over a temperature in F32. */
function exactLogits(
  kernels: Kernels,
  exact: Exact,
  of: { x: Matrix; table: Rows },
  to: Matrix & { rows: number; temperature: number },
) {
  const { at, stride, rows, temperature } = to;
  exact.multiply(of.x, [of.table], { at, stride, f32: true }, { count: rows, depth: of.table.stride });
  const by = Math.fround(1 / Math.fround(temperature));
  if (by !== 1) kernels.launch("scale_rows", { grid: [rows, 1, 1], threads: rowThreads(stride) }, [at, stride, by]);
}

/** Parts of the vocabulary whose rows are in BF16 at once. */
const piecesOf = (vocab: number, { most }: Table) =>
  Array.from({ length: Math.ceil(vocab / most) }, (_, i) => ({
    first: i * most,
    count: Math.min(most, vocab - i * most),
  }));
