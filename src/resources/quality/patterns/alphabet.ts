import { type Ranges, WORD } from "./ranges.ts";

/** The character on one side of a position. There is none beside an end of the text. */
export type Side = "none" | "word" | "other";

/** Characters that no pattern tells apart are one class. Classes are numbered in the order of their characters. */
export class Alphabet {
  readonly #sets: readonly Ranges[];
  readonly #starts: number[];
  readonly #classOf = new Uint16Array(65_536);
  readonly #sides: Side[];
  readonly #members: (Uint8Array | undefined)[] = [];
  /** Stands for the end of the text, which is in no set. */
  readonly end: number;

  constructor(sets: readonly Ranges[]) {
    this.#sets = sets;
    const cuts = new Set([0]);
    for (const ranges of [WORD, ...sets])
      for (const [low, high] of ranges) {
        cuts.add(low);
        cuts.add(high + 1);
      }
    this.#starts = [...cuts].sort((a, b) => a - b);
    for (const [index, start] of this.#starts.entries()) this.#classOf.fill(index, start, this.#starts[index + 1]);
    this.#sides = [...this.#starts.map((start): Side => (isIn(WORD, start) ? "word" : "other")), "none"];
    this.end = this.#starts.length;
  }

  classOf(character: number): number {
    if (character <= 0xffff) return this.#classOf[character]!;
    let low = 0;
    let high = this.#starts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.#starts[middle]! <= character) low = middle;
      else high = middle;
    }
    return low;
  }

  sideOf(characterClass: number): Side {
    return this.#sides[characterClass]!;
  }

  /** Has 1 at the number of each set that the class is in. */
  setsOf(characterClass: number): Uint8Array {
    const start = this.#starts[characterClass];
    this.#members[characterClass] ??= Uint8Array.from(this.#sets, (ranges) =>
      Number(start !== undefined && isIn(ranges, start)),
    );
    return this.#members[characterClass];
  }
}

const isIn = (ranges: Ranges, character: number) => ranges.some(([low, high]) => low <= character && character <= high);
