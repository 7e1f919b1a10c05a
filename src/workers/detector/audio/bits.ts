/** Reads bits of a stream, the highest first. Reading past the end throws. */
export class Bits {
  readonly #bytes: Uint8Array;
  readonly #end: number;
  #at: number;

  constructor(bytes: Uint8Array, fromByte: number) {
    this.#bytes = bytes;
    this.#end = bytes.length * 8;
    this.#at = fromByte * 8;
  }

  /** Index of the next byte, or of the one that is half read. */
  get byte() {
    return this.#at >> 3;
  }

  align() {
    this.#at = (this.#at + 7) & ~7;
  }

  /** Reads up to 32 bits. */
  read(count: number): number {
    if (count === 0) return 0;
    const value = this.#peek() >>> (32 - count);
    this.#skip(count);
    return value;
  }

  /** Reads up to 33 bits in two's complement. */
  signed(count: number): number {
    if (count > 32) return -this.read(1) * 2 ** 32 + this.read(32);
    if (count === 0) return 0;
    const value = this.#peek() >> (32 - count);
    this.#skip(count);
    return value;
  }

  /** Returns how many zeros precede the next one. */
  unary(): number {
    for (let zeros = 0; ; ) {
      const next = this.#peek();
      const here = Math.clz32(next);
      this.#skip(here === 32 ? 32 : here + 1);
      zeros += here;
      if (here < 32) return zeros;
    }
  }

  #skip(count: number) {
    this.#at += count;
    if (this.#at > this.#end) throw new RangeError("past the end");
  }

  /** The next 32 bits. Past the end they are zeros, which are never consumed. */
  #peek(): number {
    const bytes = this.#bytes;
    const at = this.#at >> 3;
    const shift = this.#at & 7;
    const word = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
    return shift === 0 ? word : (word << shift) | (bytes[at + 4]! >> (8 - shift));
  }
}
