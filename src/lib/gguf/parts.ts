/** Models that are split into several GGUF files: `NAME-00001-of-00003.gguf`. Pure. */
const PART = /^(.+)-(\d{5})-of-(\d{5})\.gguf$/i;

export type Split = { stem: string; count: number };

/** Undefined: the name is not that of a part. `name` has no folder. */
export function splitOf(name: string): Split | undefined {
  const [, stem, index, count] = PART.exec(name) ?? [];
  if (stem === undefined || Number(index) < 1 || Number(index) > Number(count)) return undefined;
  return { stem, count: Number(count) };
}

const digits = (number: number) => String(number).padStart(5, "0");

/** The names of all parts, in order. */
export const partNames = ({ stem, count }: Split): string[] =>
  Array.from({ length: count }, (_, i) => `${stem}-${digits(i + 1)}-of-${digits(count)}.gguf`);

/** The split models among these names. */
export function splitsIn(names: readonly string[]): Split[] {
  const splits = new Map<string, Split>();
  for (const name of names) {
    const split = splitOf(name);
    if (split) splits.set(`${split.stem}/${split.count}`, split);
  }
  return [...splits.values()];
}
