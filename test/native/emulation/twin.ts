/**
 * Two devices that do the same. After each kernel, what the first one wrote is compared with the second, number by
 * number; the first difference names the kernel, its argument and the place. Afterwards the first gets the numbers of
 * the second, so that every kernel is judged by itself. Graphs are not recorded: their kernels run one by one.
 */
import { DECODE_SIGNATURES, type DecodeKernel, MODE } from "../../../src/native/cuda/decode/kernels.ts";
import { fromBf16 } from "../decode_kit.ts";
import type { TestDevice } from "./choice.ts";

type Kind = "bf16" | "f32" | "i32";
type Written = { argument: number; kind: Kind };

/** Returns what a kernel writes: the index of the argument in its signature, and the numbers there. */
function writtenBy(name: DecodeKernel, values: readonly number[]): Written[] {
  const of = (kind: Kind, ...all: number[]) => all.map((argument) => ({ argument, kind }));
  if (name.startsWith("product_")) {
    const mode = values[13];
    return of(mode === MODE.logits || mode === MODE.parts ? "f32" : "bf16", 4);
  }
  if (name.startsWith("attend_exact_")) return of("bf16", 11);
  if (name.startsWith("attend_")) return values[15] === 1 ? of("bf16", 10) : of("f32", 11, 12);
  if (name.startsWith("join_")) return of("bf16", 10);
  const OTHERS: Partial<Record<DecodeKernel, Written[]>> = {
    begin_step: of("i32", 0),
    embed_rows: of("f32", 3),
    norm_rows: [...of("f32", 0), ...of("bf16", 6)],
    norm_branch: of("bf16", 5),
    join_gelu: of("bf16", 1),
    cap_logits: of("f32", 0),
    turn_rows: of("bf16", 4, 5),
    turn_rows_256: of("bf16", 4, 5),
    turn_rows_q8: of("bf16", 4), // numbers near the middle of two bytes may be rounded either way
    turn_rows_q8_256: of("bf16", 4),
    copy_pages: of("bf16", 0),
    to_bf16: of("bf16", 1),
    draw_tokens: [...of("i32", 1, 3), ...of("f32", 0, 4)],
  };
  return OTHERS[name] ?? [];
}

/** Relative to the largest number: sums in another order, and exp of another library. */
const TOLERANCE = { bf16: 2 ** -6, f32: 2e-4, i32: 0 } as const;

function numbers(bytes: Uint8Array, kind: Kind): ArrayLike<number> {
  const { buffer, byteOffset, byteLength } = bytes;
  if (kind === "f32") return new Float32Array(buffer, byteOffset, byteLength >> 2);
  if (kind === "i32") return new Int32Array(buffer, byteOffset, byteLength >> 2);
  return Float32Array.from(new Uint16Array(buffer, byteOffset, byteLength >> 1), fromBf16);
}

export function openTwin(first: TestDevice, second: TestDevice): TestDevice {
  /** Address on the first device → address on the second, and the length. */
  const held = new Map<number, { other: number; bytes: number }>();
  const find = (at: number) => {
    for (const [start, { other, bytes }] of held)
      if (at >= start && at < start + bytes) return { start, other, bytes, offset: at - start };
    return null;
  };
  const translated = (name: DecodeKernel, values: readonly number[]) =>
    values.map((value, i) => {
      const place = DECODE_SIGNATURES[name][i] === "p" ? find(value) : null;
      return place ? place.other + place.offset : value;
    });
  const compare = (name: DecodeKernel, values: readonly number[]) => {
    for (const { argument, kind } of writtenBy(name, values)) {
      const place = find(values[argument]!);
      if (!place) throw new Error(`${name}: argument ${argument} is no memory of this device`);
      const got = first.bytes(place.start, place.bytes);
      const want = second.bytes(place.other, place.bytes);
      if (Buffer.compare(got, want) === 0) continue;
      judge(`${name}, argument ${argument} (${values.join(" ")})`, numbers(got, kind), numbers(want, kind), kind);
      first.put(place.start, want.slice());
    }
  };
  return {
    ...first,
    allocate(bytes) {
      const at = first.allocate(bytes);
      held.set(at, { other: second.allocate(bytes), bytes });
      return at;
    },
    free(at) {
      const place = held.get(at);
      if (place) second.free(place.other);
      held.delete(at);
      first.free(at);
    },
    put(at, bytes) {
      first.put(at, bytes);
      const place = find(at);
      if (place) second.put(place.other + place.offset, bytes);
    },
    putRows(to, from, { rows, bytes, stride }) {
      for (let row = 0; row < rows; row++)
        this.put(to.at + row * to.stride, from.subarray(row * stride, row * stride + bytes));
    },
    fill(at, bytes, read) {
      const whole = new Uint8Array(bytes);
      read(whole, 0);
      this.put(at, whole);
    },
    launch(name, start, values) {
      first.launch(name, start, values);
      second.launch(name, start, translated(name, values));
      first.wait();
      compare(name, values);
    },
    wide: () => null, // what cuBLAS writes is not compared
    exact: () => null,
    record(act) {
      return { run: act, free() {} };
    },
  };
}

/** Places that hold no number on both sides count as equal: memory that a kernel leaves alone. */
function judge(what: string, got: ArrayLike<number>, want: ArrayLike<number>, kind: Kind) {
  let most = 0;
  for (let i = 0; i < want.length; i++) if (Number.isFinite(want[i]!)) most = Math.max(most, Math.abs(want[i]!));
  const wrong: number[] = [];
  for (let i = 0; i < want.length; i++) {
    const same = Object.is(got[i], want[i]) || (Number.isNaN(got[i]) && Number.isNaN(want[i]));
    if (!same && !(Math.abs(got[i]! - want[i]!) <= TOLERANCE[kind] * most)) wrong.push(i);
  }
  if (wrong.length === 0) return;
  const some = wrong.slice(0, 8).map((i) => `[${i}] ${got[i]} instead of ${want[i]}`);
  throw new Error(`${what}: ${wrong.length} of ${want.length} numbers are wrong: ${some.join(", ")}`);
}
