/**
 * Dropout of an adapter's input. The patterns are rows of a table, and a token draws one for each layer and matrix. The
 * host sends one number per token instead of one per activation. The backward pass looks the patterns up again instead
 * of storing them.
 */
import { openRandom, seedOf } from "../../../lib/random.ts";
import { must } from "../../../native/ffi.ts";
import {
  allocate,
  type Backend,
  type Context,
  newContext,
  newTensor,
  putBytes,
  TYPE,
} from "../../../native/ggml/ggml.ts";
import { shapeOf } from "../../../native/ggml/symbols.ts";
import type { Tape, Tensor } from "./tape.ts";

const PATTERNS = 512; // must be a power of two

/** Tables of one model, one for each input width of adapters. */
export type Patterns = { of: (width: number) => Tensor; readonly bytes: number; free: () => void };

export function openPatterns(
  backend: Backend,
  widths: readonly number[],
  how: { rate: number; seed: number },
): Patterns {
  const { ggml } = backend;
  const distinct = [...new Set(widths)].sort((a, b) => a - b);
  const context: Context = newContext(ggml, distinct.length);
  const tables = new Map(distinct.map((width) => [width, newTensor(ggml, context, TYPE.F32, [width, PATTERNS])]));
  const held = allocate(backend, context);
  for (const [width, table] of tables) putBytes(ggml, table, drawn(width, how));
  return {
    of: (width) => must(tables.get(width) ?? null, "a table of dropout patterns"),
    bytes: held.bytes,
    free() {
      held.free();
      context.free();
    },
  };
}

function drawn(width: number, { rate, seed }: { rate: number; seed: number }): Float32Array {
  const random = openRandom(seed, width);
  return Float32Array.from({ length: width * PATTERNS }, () => (random() < rate ? 0 : 1 / (1 - rate)));
}

/** Applies dropout to the input of a matrix's adapter. */
export type Drop = (tape: Tape, name: string, x: Tensor) => Tensor;

/** `choice` [tokens, matrices]: row `i` holds the patterns of the matrix `names[i]`. */
export function dropping(patterns: Patterns, choice: Tensor, of: { names: readonly string[]; tokens: number }): Drop {
  const rows = new Map(of.names.map((name, i) => [name, i]));
  const bytes = of.tokens * 4;
  return (tape, name, x) => {
    const { ggml, context } = tape;
    const row = rows.get(name);
    if (row === undefined) return x;
    const [width] = shapeOf(x);
    const mask = () => {
      const ids = ggml.ggml_view_4d(context, choice, of.tokens, 1, 1, 1, bytes, bytes, bytes, row * bytes);
      return must(ggml.ggml_get_rows(context, patterns.of(width), must(ids, "view")), "dropout");
    };
    return tape.record(ggml.ggml_mul(context, x, mask()), [x], (gradient) =>
      tape.give(x, ggml.ggml_mul(context, gradient, mask())),
    );
  };
}

/** `seeds` has one seed per token. Returns the content of `choice`. */
export function choices(seeds: Uint32Array, matrices: number): Int32Array {
  const out = new Int32Array(seeds.length * matrices);
  for (let matrix = 0; matrix < matrices; matrix++) {
    const salt = seedOf(matrix);
    for (let i = 0; i < seeds.length; i++) {
      let x = Math.imul((seeds[i] as number) ^ salt, 0x21f0aaad);
      x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
      out[matrix * seeds.length + i] = (x ^ (x >>> 15)) & (PATTERNS - 1);
    }
  }
  return out;
}
