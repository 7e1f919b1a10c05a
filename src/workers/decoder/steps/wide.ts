/**
 * Products of many rows by cuBLAS. Quantized weights are decoded to BF16 before, a piece at a time: the piece is still in
 * the card's cache when it is multiplied. A row's last bits depend on the number of rows in its pass.
 */
import { PACKED_TYPES } from "../../../lib/gguf/types.ts";
import { MIB } from "../../../lib/units.ts";
import type { Format, WideKernels } from "../../../native/cuda/decode/kernels.ts";
import type { Into, Matrix } from "../../../native/cuda/kernel_products.ts";
import { rowThreads } from "../../trainer/engine/fused/project.ts";
import type { DecoderModel, Weight } from "../model.ts";
import type { From } from "../passes.ts";

const DECODED_BYTES = 32 * MIB; // below the second-level cache of current cards
const ROWS = 64; // pieces begin at multiples of this
const GATE_THREADS = 128;

/** How a block of a quantized format lies in memory, and its number in `unpack_rows`. */
const PACKED: Readonly<Partial<Record<Format, { numbers: number; bytes: number; packing: number }>>> = {
  q8: { numbers: 32, bytes: 34, packing: PACKED_TYPES.indexOf("Q8_0") },
  q4: { numbers: 256, bytes: 144, packing: PACKED_TYPES.indexOf("Q4_K") },
  q6: { numbers: 256, bytes: 210, packing: PACKED_TYPES.indexOf("Q6_K") },
};

/** Bytes for decoded rows of quantized weights. */
export const decodedRoom = ({ matrices }: DecoderModel) =>
  [...matrices.values()].every(({ format }) => format === "bf16") ? 0 : DECODED_BYTES;

/** Weights over each other, as one product. `decoded`: room for rows of quantized weights. */
export function multiplyWide(
  wide: WideKernels,
  parts: readonly Weight[],
  { x, depth, count }: From,
  { to, decoded }: { to: Into; decoded: number },
) {
  let column = 0;
  for (const part of parts)
    for (const { matrix, rows } of pieces(wide, part, decoded)) {
      const at = to.at + column * (to.f32 ? 4 : 2);
      wide.products.byRows({ at: x, stride: depth }, matrix, { ...to, at }, { rows: count, columns: rows, depth });
      column += rows;
    }
}

/** Gates and then ups in each row of `both`. */
export function multiplyBoth(
  wide: WideKernels,
  pair: readonly [gate: Weight, up: Weight],
  from: From,
  { both, decoded }: { both: number; decoded: number },
) {
  const [gate, up] = pair;
  const { x, depth, count } = from;
  const forward = gate.rows;
  const into = { at: both, stride: 2 * forward };
  if (gate.format === "bf16") {
    const matrices = [matrixOf(gate), matrixOf(up)] as const;
    wide.products.byRowsOfBoth({ at: x, stride: depth }, matrices, into, { rows: count, columns: forward, depth });
  } else multiplyWide(wide, pair, from, { to: into, decoded });
}

/** silu(gate) ⊙ up. */
export function joinWide(
  wide: WideKernels,
  { both, to, forward, count }: { both: number; to: number; forward: number; count: number },
) {
  const grid = [count, Math.ceil(forward / 8 / GATE_THREADS), 1] as const;
  wide.launch("gate_up", { grid, threads: GATE_THREADS }, [both, to, forward, forward]);
}

const matrixOf = ({ at, columns }: Weight) => ({ at, stride: columns });

/** A weight in BF16, as it is or piece by piece. Each piece is there until the next is asked for. */
function* pieces(wide: WideKernels, weight: Weight, decoded: number): Generator<{ matrix: Matrix; rows: number }> {
  const { at, format, rows, columns } = weight;
  const packed = PACKED[format];
  if (!packed) {
    yield { matrix: matrixOf(weight), rows };
    return;
  }
  const rowBytes = (columns / packed.numbers) * packed.bytes;
  const most = Math.max(ROWS, Math.floor(DECODED_BYTES / (columns * 2) / ROWS) * ROWS);
  for (let first = 0; first < rows; first += most) {
    const count = Math.min(most, rows - first);
    wide.launch("unpack_rows", { grid: [count, 1, 1], threads: rowThreads(columns) }, [
      ...[at + first * rowBytes, decoded, columns, columns, packed.packing],
    ]);
    yield { matrix: { at: decoded, stride: columns }, rows: count };
  }
}
