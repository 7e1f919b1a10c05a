/**
 * Products of many rows by cuBLAS. Quantized weights are decoded to BF16 before, a piece at a time: the piece is still in
 * the card's cache when it is multiplied. A row's last bits depend on the number of rows in its pass.
 */
import { MIB } from "../../../lib/units.ts";
import { type Device, FORMAT, PACKED, PACKED_ROWS, type WideKernels } from "../../../native/cuda/decode/kernels.ts";
import type { Into, Matrix } from "../../../native/cuda/kernel_products.ts";
import type { DecoderModel, Weight } from "../model.ts";
import type { From } from "../passes.ts";

const DECODED_BYTES = 32 * MIB; // below the second-level cache of current cards
const ROWS = 64; // pieces begin at multiples of this
const GATE_THREADS = 128;
const UNPACK_WARPS = 4;

type Wide = { device: Device; wide: WideKernels };

/** Bytes for decoded rows of quantized weights. */
export const decodedRoom = ({ matrices }: DecoderModel) =>
  [...matrices.values()].every(({ format }) => format === "bf16") ? 0 : DECODED_BYTES;

/** Bytes of a copy in BF16 of all quantized matrices that are multiplied by. */
export const decodedBytes = (model: DecoderModel) =>
  multiplied(model).reduce((sum, { rows, columns }) => sum + 2 * rows * columns, 0);

const multiplied = ({ matrices, head, embeddings }: DecoderModel) =>
  [...matrices.values()].filter((each) => each.format !== "bf16" && (each !== embeddings || each === head));

/**
 * Keeps a copy in BF16 of the quantized matrices, so that passes of many rows need not decode them each time. Returns null
 * where there is no cuBLAS.
 */
export function holdDecoded(device: Device, model: DecoderModel): { bytes: number; free: () => void } | null {
  if (!device.wide()) return null;
  const all = multiplied(model);
  const at = device.allocate(decodedBytes(model));
  let next = at;
  for (const weight of all) {
    unpack(device, weight, { first: 0, count: weight.rows, to: next });
    weight.decoded = next;
    next += 2 * weight.rows * weight.columns;
  }
  const free = () => {
    for (const weight of all) weight.decoded = 0;
    device.free(at);
  };
  return { bytes: next - at, free };
}

/** Weights over each other, as one product. `decoded`: room for rows of quantized weights. */
export function multiplyWide(
  { device, wide }: Wide,
  parts: readonly Weight[],
  { x, depth, count }: From,
  { to, decoded }: { to: Into; decoded: number },
) {
  let column = 0;
  for (const part of joined(parts))
    for (const { matrix, rows } of pieces(device, part, decoded)) {
      const at = to.at + column * (to.f32 ? 4 : 2);
      wide.products.byRows({ at: x, stride: depth }, matrix, { ...to, at }, { rows: count, columns: rows, depth });
      column += rows;
    }
}

/** Gates and then ups in each row of `both`. */
export function multiplyBoth(
  of: Wide,
  pair: readonly [gate: Weight, up: Weight],
  from: From,
  { both, decoded }: { both: number; decoded: number },
) {
  const [gate, up] = pair;
  const { x, depth, count } = from;
  const forward = gate.rows;
  const into = { at: both, stride: 2 * forward };
  const matrices = [wholeOf(gate), wholeOf(up)] as const;
  if (matrices[0] && matrices[1]) {
    const [first, second] = matrices;
    of.wide.products.byRowsOfBoth({ at: x, stride: depth }, [first, second], into, {
      rows: count,
      columns: forward,
      depth,
    });
  } else multiplyWide(of, pair, from, { to: into, decoded });
}

/** silu(gate) ⊙ up. */
export function joinWide(
  wide: WideKernels,
  { both, to, forward, count }: { both: number; to: number; forward: number; count: number },
) {
  const grid = [count, Math.ceil(forward / 8 / GATE_THREADS), 1] as const;
  wide.launch("gate_up", { grid, threads: GATE_THREADS }, [both, to, forward, forward]);
}

/** Weights that lie one behind the other in BF16 are one: a product takes less time than several small ones. */
function joined(parts: readonly Weight[]): readonly Weight[] {
  const all: Weight[] = [];
  for (const part of parts) {
    const last = all.at(-1);
    const [before, next] = [last && wholeOf(last), wholeOf(part)];
    if (last && before && next && next.at === before.at + 2 * last.rows * last.columns)
      all[all.length - 1] = { ...last, at: before.at, format: "bf16", rows: last.rows + part.rows };
    else all.push(part);
  }
  return all;
}

/** A weight that is on the device in BF16. */
function wholeOf({ at, format, columns, decoded }: Weight): Matrix | null {
  if (format === "bf16") return { at, stride: columns };
  return decoded ? { at: decoded, stride: columns } : null;
}

/** A weight in BF16, as it is or piece by piece. Each piece is there until the next is asked for. */
function* pieces(device: Device, weight: Weight, decoded: number): Generator<{ matrix: Matrix; rows: number }> {
  const { rows, columns } = weight;
  const whole = wholeOf(weight);
  if (whole) {
    yield { matrix: whole, rows };
    return;
  }
  const most = Math.max(ROWS, Math.floor(DECODED_BYTES / (columns * 2) / ROWS) * ROWS);
  for (let first = 0; first < rows; first += most) {
    const count = Math.min(most, rows - first);
    unpack(device, weight, { first, count, to: decoded });
    yield { matrix: { at: decoded, stride: columns }, rows: count };
  }
}

/** Decodes `count` rows of a packed weight. */
function unpack(
  device: Device,
  { at, format, columns, packed, rows }: Weight,
  { first, count, to }: { first: number; count: number; to: number },
) {
  if (format === "bf16" || !packed) throw new Error(`cuBLAS does not multiply by ${rows} rows of embeddings`);
  const units = columns / PACKED[format].numbers;
  const grid = [Math.ceil(count / PACKED_ROWS), Math.ceil(units / UNPACK_WARPS), 1] as const;
  device.launch("unpack_tiles", { grid, threads: 32 * UNPACK_WARPS }, [at, to, FORMAT[format], columns, first, count]);
}
