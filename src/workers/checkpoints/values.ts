export type Config = Readonly<Record<string, unknown>>;
/** Keys of GGUF without the prefix `ARCHITECTURE.`. */
export type Facts = Map<string, { type: "uint32" | "float32"; value: number } | { type: "string"; value: string }>;

/** A float32 of the file as the shortest decimal that reads back as the same float32: 1e-5, not 9.999999747e-6. */
export function round(value: number): number {
  if (Number.isInteger(value)) return value;
  for (let digits = 1; digits <= 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === Math.fround(value)) return short;
  }
  return value;
}
