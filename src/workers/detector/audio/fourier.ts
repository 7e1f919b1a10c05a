/** The fast Fourier transform of a fixed length, a power of two, in place. */
export class Fourier {
  readonly #cos: Float64Array;
  readonly #sin: Float64Array;
  /** Pairs of places that change their values before the transform. */
  readonly #swaps: Uint16Array;

  constructor(readonly length: number) {
    const bits = Math.log2(length);
    this.#cos = Float64Array.from({ length: length / 2 }, (_, i) => Math.cos((2 * Math.PI * i) / length));
    this.#sin = Float64Array.from({ length: length / 2 }, (_, i) => -Math.sin((2 * Math.PI * i) / length));
    const reversed = (i: number) => {
      let other = 0;
      for (let bit = 0; bit < bits; bit++) if (i & (1 << bit)) other |= 1 << (bits - 1 - bit);
      return other;
    };
    const indexes = Array.from({ length }, (_, i) => i);
    this.#swaps = Uint16Array.from(indexes.flatMap((i) => (reversed(i) > i ? [i, reversed(i)] : [])));
  }

  transform(re: Float64Array, im: Float64Array) {
    const [cos, sin, swaps, length] = [this.#cos, this.#sin, this.#swaps, this.length];
    for (let n = 0; n < swaps.length; n += 2) {
      const i = swaps[n]!;
      const j = swaps[n + 1]!;
      const [r, s] = [re[i]!, im[i]!];
      re[i] = re[j]!;
      im[i] = im[j]!;
      re[j] = r;
      im[j] = s;
    }
    for (let half = 1; half < length; half *= 2) {
      const step = length / (2 * half);
      for (let from = 0; from < length; from += 2 * half)
        for (let k = 0; k < half; k++) {
          const a = from + k;
          const b = a + half;
          const c = cos[k * step]!;
          const s = sin[k * step]!;
          const r = re[b]! * c - im[b]! * s;
          const i = re[b]! * s + im[b]! * c;
          re[b] = re[a]! - r;
          im[b] = im[a]! - i;
          re[a] = re[a]! + r;
          im[a] = im[a]! + i;
        }
    }
  }
}
