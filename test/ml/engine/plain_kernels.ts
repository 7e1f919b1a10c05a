/**
 * The kernels of src/native/cuda/kernels as plain loops on memory of this process: the expected results, without a GPU.
 * With them the fused passes run on the CPU, and everything but the kernels is the code that runs on the device.
 */
import { type Pointer, toArrayBuffer } from "bun:ffi";
import type { Extent, Into, Matrix } from "../../../src/native/cuda/kernel_products.ts";
import type { KernelName, Kernels } from "../../../src/native/cuda/kernels.ts";
import { attention, attentionBack, attentionDelta, sumHeads } from "./plain_attention.ts";
import { bits, floats, halves, ints, range, real, taking, type Values, views } from "./plain_memory.ts";
import { PACKED_KERNELS } from "./plain_packed.ts";

function addNorm(values: Values, tokens: number) {
  const take = taking(values);
  const [from, more, to] = [take(), take(), take()];
  const [weight, out, inverse] = [floats(take()), halves(take()), floats(take())];
  const [width, stride, epsilon] = [take(), take(), take()];
  const [x, sum, y] = [floats(from), floats(to), more === 0 ? null : halves(more)];
  for (let n = 0; n < tokens; n++) {
    let squares = 0;
    for (let i = 0; i < width; i++) {
      const at = n * width + i;
      sum[at] = (x[at] as number) + (y?.get(at) ?? 0);
      squares += (sum[at] as number) ** 2;
    }
    const by = 1 / Math.sqrt(squares / width + epsilon);
    inverse[n] = by;
    for (let i = 0; i < width; i++)
      out.set(n * stride + i, (sum[n * width + i] as number) * by * (weight[i] as number));
  }
}

function normBack(values: Values, tokens: number) {
  const take = taking(values);
  const gradient = halves(take());
  const rowsAt = take();
  const factorsAt = take();
  const [x, inverse, weight, sum, out] = [
    floats(take()),
    floats(take()),
    floats(take()),
    floats(take()),
    halves(take()),
  ];
  const [width, stride, isFirst, outBy] = [take(), take(), take(), take()];
  for (let n = 0; n < tokens; n++) {
    const source = rowsAt === 0 ? n : (ints(rowsAt)[n] as number);
    const factor = source < 0 ? 0 : rowsAt === 0 ? 1 : (floats(factorsAt)[source] as number);
    const by = inverse[n] as number;
    const given = (i: number) => gradient.get(Math.max(0, source) * width + i) * (weight[i] as number);
    let along = 0;
    for (let i = 0; i < width; i++) along += given(i) * (x[n * width + i] as number);
    const mean = (along * by * by) / width;
    for (let i = 0; i < width; i++) {
      const at = n * width + i;
      const before = isFirst ? 0 : (sum[at] as number);
      sum[at] = before + factor * by * (given(i) - (x[at] as number) * mean);
      out.set(n * stride + i, (sum[at] as number) * outBy);
    }
  }
}

function gateUp(values: Values, tokens: number) {
  const take = taking(values);
  const [both, out, forward, stride] = [halves(take()), halves(take()), take(), take()];
  for (let n = 0; n < tokens; n++)
    for (let i = 0; i < forward; i++) {
      const [gate, up] = [both.get(n * 2 * forward + i), both.get((n * 2 + 1) * forward + i)];
      out.set(n * stride + i, (gate / (1 + Math.exp(-gate))) * up);
    }
}

function gateUpBack(values: Values, tokens: number) {
  const take = taking(values);
  const [both, gradient, out, forward, stride] = [halves(take()), halves(take()), halves(take()), take(), take()];
  for (let n = 0; n < tokens; n++)
    for (let i = 0; i < forward; i++) {
      const [gate, up] = [both.get(n * 2 * forward + i), both.get((n * 2 + 1) * forward + i)];
      const sigmoid = 1 / (1 + Math.exp(-gate));
      const d = gradient.get(n * forward + i);
      out.set(n * stride + i, d * up * sigmoid * (1 + gate * (1 - sigmoid)));
      out.set(n * stride + forward + i, d * gate * sigmoid);
    }
}

/** Both directions. With `back`, the first buffer holds gradients and is read and written. */
function turnHeads(values: Values, back: boolean) {
  const take = taking(values);
  const [a, aStride, b, bStride] = [halves(take()), take(), halves(take()), take()];
  const [positions, turns] = [ints(take()), floats(take())];
  const [biasAt, queryNorm, keyNorm] = [take(), take(), take()];
  const [heads, keyHeads, length, inHalves, epsilon, tokens] = [take(), take(), take(), take(), take(), take()];
  const pairs = length / 2;
  for (let n = 0; n < tokens; n++)
    for (const head of range(heads + (back ? 1 : 2) * keyHeads)) {
      const isValue = head >= heads + keyHeads;
      const normAt = isValue ? 0 : head < heads ? queryNorm : keyNorm;
      const norm = normAt === 0 ? null : floats(normAt);
      const raw = range(length).map((i) => {
        const value = back ? b.get(n * bStride + head * length + i) : a.get(n * aStride + head * length + i);
        return value + (biasAt === 0 ? 0 : (floats(biasAt)[head * length + i] as number));
      });
      const by = norm ? 1 / Math.sqrt(raw.reduce((s, x) => s + x * x, 0) / length + epsilon) : 1;
      const turn = (pair: number) => {
        const at = ((positions[n] as number) * pairs + pair) * 2;
        return isValue ? [1, 0] : [turns[at] as number, turns[at + 1] as number];
      };
      const pairOf = (pair: number) => (pair < inHalves ? [pair, pair + inHalves] : [2 * pair, 2 * pair + 1]);
      const given = raw.map((x, i) => (back ? a.get(n * aStride + head * length + i) : x * by * (norm?.[i] ?? 1)));
      const turned = new Array<number>(length);
      for (const pair of range(pairs)) {
        const [i, k] = pairOf(pair) as [number, number];
        const [cosine, sine] = turn(pair) as [number, number];
        const [x, y] = [given[i] as number, given[k] as number];
        turned[i] = back ? x * cosine + y * sine : x * cosine - y * sine;
        turned[k] = back ? y * cosine - x * sine : x * sine + y * cosine;
      }
      if (!back) {
        for (const i of range(length)) b.set(n * bStride + head * length + i, turned[i] as number);
        continue;
      }
      const weighted = turned.map((d, i) => d * (norm?.[i] ?? 1));
      const mean = norm ? (weighted.reduce((s, d, i) => s + d * (raw[i] as number), 0) * by * by) / length : 0;
      for (const [i, d] of weighted.entries())
        a.set(n * aStride + head * length + i, by * (d - (raw[i] as number) * mean));
    }
}

function targetLogps(values: Values, rows: number) {
  const take = taking(values);
  const [logits, stride, targets, logps] = [floats(take()), take(), ints(take()), floats(take())];
  const [entropiesAt, sharesAt, shareStride, vocab] = [take(), take(), take(), take()];
  for (let n = 0; n < rows; n++) {
    const row = logits.subarray(n * stride, n * stride + vocab);
    const top = row.reduce((a, b) => Math.max(a, b));
    const all = top + Math.log(row.reduce((s, x) => s + Math.exp(x - top), 0));
    const target = targets[n] as number;
    logps[n] = target < 0 ? 0 : (row[target] as number) - all;
    if (entropiesAt) floats(entropiesAt)[n] = all - row.reduce((s, x) => s + Math.exp(x - all) * x, 0);
    if (sharesAt === 0) continue;
    const shares = halves(sharesAt);
    for (const [i, x] of row.entries()) shares.set(n * shareStride + i, Math.exp(x - all) - (i === target ? 1 : 0));
  }
}

function copies(
  listAt: number,
  count: number,
  move: (from: number, to: number, of: { i: number; k: number; by: number }) => void,
) {
  const view = views(listAt);
  for (let c = 0; c < count; c++) {
    const at = c * 40;
    const [from, to] = [Number(view.getBigUint64(at, true)), Number(view.getBigUint64(at + 8, true))];
    const [rows, columns, fromStride, toStride] = [16, 20, 24, 28].map((o) => view.getInt32(at + o, true)) as [
      number,
      number,
      number,
      number,
    ];
    const by = view.getFloat32(at + 32, true);
    for (let r = 0; r < rows; r++)
      for (let i = 0; i < columns; i++) move(from, to, { i: r * fromStride + i, k: r * toStride + i, by });
  }
}

const scattered = (given: number) => {
  let x = given >>> 0;
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
  return (x ^ (x >>> 16)) >>> 0;
};

function mergeAdapter(values: Values) {
  const take = taking(values);
  const [wAt, stride, aAt, outAt] = [take(), take(), take(), take()];
  const [rows, columns, bColumn, rank, seed] = [take(), take(), take(), take(), take()];
  const [w, a] = [halves(wAt), halves(aAt)];
  const out = new Uint16Array(toArrayBuffer(outAt as Pointer, 0, rows * columns * 2));
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) {
      let sum = w.get(row * stride + column);
      for (let k = 0; k < rank; k++)
        sum = Math.fround(sum + w.get(row * stride + bColumn + k) * a.get(k * stride + column));
      const at = row * columns + column;
      const random = scattered(Math.floor(at / 2) ^ seed);
      real[0] = sum;
      out[at] = ((bits[0] as number) + (at % 2 === 0 ? random & 0xffff : random >>> 16)) >>> 16;
    }
}

type Plain = (values: Values, grid: readonly [number, number, number]) => void;
/** The other kernels are those that emulated_kernels.ts compiles. */
const KERNELS: Partial<Record<KernelName, Plain>> = {
  embed([table = 0, ids = 0, x = 0, width = 0], [tokens]) {
    for (let n = 0; n < tokens; n++)
      for (let i = 0; i < width; i++)
        floats(x)[n * width + i] = halves(table).get((ints(ids)[n] as number) * width + i);
  },
  take_rows([from = 0, indexes = 0, to = 0, width = 0], [rows]) {
    for (let n = 0; n < rows; n++)
      for (let i = 0; i < width; i++) {
        const place = ints(indexes)[n] as number;
        halves(to).set(n * width + i, place < 0 ? 0 : halves(from).get(place * width + i));
      }
  },
  drop_rows([x = 0, stride = 0, patterns = 0, choice = 0, out = 0, width = 0], [tokens]) {
    for (let n = 0; n < tokens; n++)
      for (let i = 0; i < width; i++) {
        const kept = floats(patterns)[(ints(choice)[n] as number) * width + i] as number;
        halves(out).set(n * width + i, halves(x).get(n * stride + i) * kept);
      }
  },
  add_dropped([more = 0, patterns = 0, choice = 0, to = 0, width = 0], [tokens]) {
    for (let n = 0; n < tokens; n++)
      for (let i = 0; i < width; i++) {
        const kept = floats(patterns)[(ints(choice)[n] as number) * width + i] as number;
        halves(to).set(n * width + i, halves(to).get(n * width + i) + halves(more).get(n * width + i) * kept);
      }
  },
  add_norm: (values, [tokens]) => addNorm(values, tokens),
  norm_back: (values, [tokens]) => normBack(values, tokens),
  gate_up: (values, [tokens]) => gateUp(values, tokens),
  gate_up_back: (values, [tokens]) => gateUpBack(values, tokens),
  turn_heads: (values) => turnHeads(values, false),
  turn_heads_back: (values) => turnHeads(values, true),
  attention_64: (values, [, , rows]) => attention(values, 64, rows),
  attention_128: (values, [, , rows]) => attention(values, 128, rows),
  attention_back_queries_64: (values, [, , rows]) => attentionBack(values, 64, { rows, part: "queries" }),
  attention_back_queries_128: (values, [, , rows]) => attentionBack(values, 128, { rows, part: "queries" }),
  attention_back_keys_64: (values, [, , rows]) => attentionBack(values, 64, { rows, part: "keys" }),
  attention_back_keys_128: (values, [, , rows]) => attentionBack(values, 128, { rows, part: "keys" }),
  attention_delta: (values) => attentionDelta(values),
  sum_heads: (values) => sumHeads(values),
  target_logps: (values, [rows]) => targetLogps(values, rows),
  put_adapters: ([list = 0], [, count]) =>
    copies(list, count, (from, to, { i, k, by }) => halves(to).set(k, (floats(from)[i] as number) * by)),
  add_gradients: ([list = 0], [, count]) =>
    copies(list, count, (from, to, { i, k, by }) => {
      floats(to)[k] = (floats(to)[k] as number) + (floats(from)[i] as number) * by;
    }),
  merge_adapter: (values) => mergeAdapter(values),
  place_matrix([from = 0, to = 0, columns = 0, stride = 0], [rows]) {
    for (let n = 0; n < rows; n++)
      for (let i = 0; i < columns; i++) halves(to).set(n * stride + i, halves(from).get(n * columns + i));
  },
  ...PACKED_KERNELS,
};

/** `a(row, d)` and `b(d, column)` return the index of the element. */
function multiply(a: Matrix, b: Matrix, { to, of, at }: { to: Into; of: Extent; at: { a: IndexOf; b: IndexOf } }) {
  const [x, y] = [halves(a.at), halves(b.at)];
  const columns = range(of.columns).map((column) =>
    Float32Array.from({ length: of.depth }, (_, d) => y.get(at.b(d, column, b.stride))),
  );
  for (let row = 0; row < of.rows; row++) {
    const left = Float32Array.from({ length: of.depth }, (_, d) => x.get(at.a(row, d, a.stride)));
    columns.forEach((right, column) => {
      let sum = 0;
      for (let d = 0; d < of.depth; d++) sum += (left[d] as number) * (right[d] as number);
      const place = row * to.stride + column;
      const before = !to.adds ? 0 : to.f32 ? (floats(to.at)[place] as number) : halves(to.at).get(place);
      const value = before + sum * (to.by ?? 1);
      if (to.f32) floats(to.at)[place] = value;
      else halves(to.at).set(place, value);
    });
  }
}
type IndexOf = (row: number, column: number, stride: number) => number;
const straight: IndexOf = (row, column, stride) => row * stride + column;
const turned: IndexOf = (row, column, stride) => column * stride + row;

export const plainKernels: Kernels = {
  launch(name, { grid }, values) {
    const kernel = KERNELS[name];
    if (!kernel) throw new Error(`${name} has no plain form`);
    kernel(values, grid);
  },
  products: {
    byRows: (a, b, to, of) => multiply(a, b, { to, of, at: { a: straight, b: turned } }),
    byRowsOfBoth(a, [b, c], to, of) {
      multiply(a, b, { to, of, at: { a: straight, b: turned } });
      multiply(a, c, { to: { ...to, at: to.at + of.columns * 2 }, of, at: { a: straight, b: turned } });
    },
    plain: (a, b, to, of) => multiply(a, b, { to, of, at: { a: straight, b: straight } }),
    byColumns: (a, b, to, of) => multiply(a, b, { to, of, at: { a: turned, b: straight } }),
    close: () => 0,
  },
  exact: () => null,
  multiprocessors: 1, // nothing is uneven
  enter() {},
  wait() {},
  close() {},
};
