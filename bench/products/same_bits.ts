/** Results of bench/gpu_rows.ts as text: which algorithms give a row the same bits in any number of rows. */
import type { Row } from "../tools.ts";

export const FEW = 256; // rows of a step of decoding, timed

/** `many`: rows of a step of training, timed. */
export type Shape = { name: string; columns: number; depth: number; many: number; f32: boolean };
/** Microseconds of a product. */
type Times = { few: number; many: number };
/** `bits` is a hash of the compared rows. */
type Algorithm = Times & { bits: bigint; settings: string };
export type Result = {
  shape: Shape;
  /** The choice of cuBLAS itself; `bits` by number of rows. */
  usual: Times & { bits: Map<number, bigint> };
  kept: Algorithm[];
  found: number;
  /** Algorithms that were tried until the time was over. */
  tried: number;
  /** For each algorithm that does not compute all numbers of rows, the first such number. */
  refused: number[];
  /** How many of the others keep the bits of the first rows. */
  byNumber: number;
};

export const flop = ({ columns, depth }: Shape, rows: number) => 2 * rows * columns * depth;

/** The best single algorithm, and the best two with the same bits: one for few rows, one for many. */
function choices({ kept, usual }: Result) {
  const cost = ({ few }: Times, { many }: Times) => few / usual.few + many / usual.many;
  const least = <T>(some: readonly T[], of: (one: T) => number) =>
    some.reduce<T | undefined>((best, one) => (best === undefined || of(one) < of(best) ? one : best), undefined);
  const pairs = kept.flatMap((a) => kept.filter(({ bits }) => bits === a.bits).map((b) => [a, b] as const));
  return {
    few: least(kept, ({ few }) => few),
    many: least(kept, ({ many }) => many),
    both: least(kept, (one) => cost(one, one)),
    pair: least(pairs, ([a, b]) => cost(a, b)),
  };
}

/** Progress, and the settings that a table has no room for. */
export function report(result: Result) {
  const { shape, usual, kept, found, tried, refused, byNumber } = result;
  const { few, many, both, pair } = choices(result);
  console.error(`${shape.name} ${shape.depth} → ${shape.columns} ${shape.f32 ? "F32" : "BF16"}`);
  console.error(
    `  ${found} found, ${tried} tried, ${byNumber} keep the first rows, refused at ${refused.join() || "none"},`,
  );
  console.error(`  ${kept.length} keep rows at any place; sets of bits: ${new Set(kept.map(({ bits }) => bits)).size}`);
  const alike = [...usual.bits].filter(([, bits]) => bits === pair?.[0].bits).map(([rows]) => rows);
  const kinds = new Set(usual.bits.values()).size;
  console.error(
    `  cuBLAS has ${kinds} sets of bits, and those of the pair at: ${alike.join(", ") || "no number of rows"}`,
  );
  const named = { "few rows": few, "many rows": many, both, "pair, few": pair?.[0], "pair, many": pair?.[1] };
  for (const [what, one] of Object.entries(named))
    if (one) console.error(`  ${what}: ${one.few.toFixed(1)} and ${one.many.toFixed(1)} µs, ${one.settings}`);
}

export function table(results: readonly Result[]): string {
  const head = [
    ...["shape", "rows", "tried", "keep bits", "cuBLAS µs (TFLOP/s)", "best that keeps bits", "one algorithm for both"],
    ...["two with the same bits", "cuBLAS has these bits"],
  ];
  const lines = results.flatMap((result) => {
    const { shape, usual, tried, kept } = result;
    const { few, many, both, pair } = choices(result);
    const line = (rows: number, key: "few" | "many", best?: Times, ofPair?: Algorithm) => {
      const speed = (us: number) => `${us.toFixed(1)} (${(flop(shape, rows) / us / 1e6).toFixed(0)})`;
      const cell = (one?: Times) => (one ? `${speed(one[key])} ${(usual[key] / one[key]).toFixed(2)}×` : "-");
      const same = ofPair && usual.bits.get(rows) === ofPair.bits ? "yes" : "no";
      return [
        ...[shape.name, `${rows}`, `${tried}`, `${kept.length}`, speed(usual[key]), cell(best), cell(both)],
        ...[cell(ofPair), same],
      ];
    };
    return [line(FEW, "few", few, pair?.[0]), line(shape.many, "many", many, pair?.[1])];
  });
  return [head, head.map(() => "---"), ...lines].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

export function rowsOf(result: Result): Row[] {
  const { shape, usual } = result;
  const { pair } = choices(result);
  const row = (rows: number, us: number | undefined, other: number): Row => {
    const value = us === undefined ? "no algorithm" : `${(other / us).toFixed(2)} of cuBLAS's speed`;
    return { bench: "gpu_rows", what: `${shape.name}, ${rows} rows with the same bits`, value, target: "", ok: null };
  };
  return [row(FEW, pair?.[0].few, usual.few), row(shape.many, pair?.[1].many, usual.many)];
}
