/** Writes the watermarks of open generators, to test that they are found: the writer is independent of the reader. */
export type Picture = { pixels: Uint8Array; width: number; height: number };
export type Scheme = { bits: readonly number[]; isWhole: boolean; red: boolean };

export const bitsOf = (text: string) => [...text].map(Number);
export const bytesToBits = (text: string) =>
  [...Buffer.from(text)].flatMap((byte) => Array.from({ length: 8 }, (_, i) => (byte >> (7 - i)) & 1));

export const SCHEMES: Record<string, Scheme> = {
  "Stable Diffusion 1": { bits: bytesToBits("StableDiffusionV1"), isWhole: true, red: false },
  "Stable Diffusion 2": { bits: bytesToBits("SDV2"), isWhole: true, red: false },
  "Stable Diffusion XL": {
    bits: bitsOf("101100111110110010010000011110111011000110011110"),
    isWhole: false,
    red: false,
  },
  FLUX: { bits: bitsOf((0b001010101111111010000111100111001111010100101110).toString(2)), isWhole: false, red: false },
};
/** SDXL as older versions of its pipeline wrote it. */
export const EXCHANGED: Scheme = { ...SCHEMES["Stable Diffusion XL"]!, red: true };

let state = 1;
export const random = () => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state / 2 ** 32;
};

/** Soft patches of colour with some grain: what a photograph has at the size of blocks. */
export function softPicture(width: number, height: number): Picture {
  const waves = Array.from({ length: 9 }, () => ({
    x: (random() - 0.5) / 40,
    y: (random() - 0.5) / 40,
    phase: random() * 7,
    strength: [10 + 25 * random(), 10 + 25 * random(), 10 + 25 * random()] as const,
  }));
  const pixels = new Uint8Array(width * height * 3);
  for (let y = 0, i = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const sines = waves.map((wave) => Math.sin(x * wave.x + y * wave.y + wave.phase));
      for (let c = 0; c < 3; c++) {
        const sum = waves.reduce((total, wave, k) => total + sines[k]! * wave.strength[c]!, 125);
        pixels[i++] = Math.min(245, Math.max(10, Math.round(sum + 6 * random())));
      }
    }
  return { pixels, width, height };
}

const clip = (value: number) => Math.min(255, Math.max(0, value));

/** A copy with the message. Luma and the other colour difference stay. */
export function embed({ pixels, width, height }: Picture, { bits, isWhole, red }: Scheme): Picture {
  const [rows, columns] = [Math.floor(height / 4) * 4, Math.floor(width / 4) * 4];
  const middle = isWhole ? 128 : 0.5;
  const [first, last] = red ? [2, 0] : [0, 2]; // the channels that are read as red and as blue
  const rounded = (value: number) => (isWhole ? clip(Math.round(value)) : value);
  const size = width * height;
  const planes = { y: new Float64Array(size), u: new Float64Array(size), v: new Float64Array(size) };
  for (let i = 0; i < size; i++) {
    const [r, g, b] = [pixels[i * 3 + first]!, pixels[i * 3 + 1]!, pixels[i * 3 + last]!];
    const y = 0.299 * r + 0.587 * g + 0.114 * b;
    planes.y[i] = rounded(y);
    planes.u[i] = rounded(0.492 * (b - y) + middle);
    planes.v[i] = rounded(0.877 * (r - y) + middle);
  }
  const u = planes.u;
  const [high, wide] = [rows / 2, columns / 2];
  const average = new Float64Array(high * wide);
  const at = (row: number, column: number) => 2 * row * width + 2 * column;
  for (let row = 0; row < high; row++)
    for (let column = 0; column < wide; column++) {
      const i = at(row, column);
      average[row * wide + column] = (u[i]! + u[i + 1]! + u[i + width]! + u[i + width + 1]!) / 2;
    }
  const before = average.slice();
  let number = 0;
  for (let row = 0; row + 4 <= high; row += 4)
    for (let column = 0; column + 4 <= wide; column += 4) {
      const indexes = Array.from({ length: 16 }, (_, i) => (row + (i >> 2)) * wide + column + (i & 3)).slice(1);
      let place = indexes[0]!;
      for (const each of indexes) if (Math.abs(average[each]!) > Math.abs(average[place]!)) place = each;
      const value = average[place]!;
      const moved = (Math.floor(Math.abs(value) / 36) + 0.25 + 0.5 * bits[number++ % bits.length]!) * 36;
      average[place] = value >= 0 ? moved : -moved;
    }
  for (let row = 0; row < high; row++)
    for (let column = 0; column < wide; column++) {
      const change = (average[row * wide + column]! - before[row * wide + column]!) / 2;
      const i = at(row, column);
      for (const j of [i, i + 1, i + width, i + width + 1])
        u[j] = isWhole ? clip(Math.trunc(u[j]! + change)) : u[j]! + change;
    }
  const out = new Uint8Array(size * 3);
  for (let i = 0; i < size; i++) {
    const [y, du, dv] = [planes.y[i]!, u[i]! - middle, planes.v[i]! - middle];
    out[i * 3 + last] = clip(Math.round(y + 2.032 * du));
    out[i * 3 + 1] = clip(Math.round(y - 0.395 * du - 0.581 * dv));
    out[i * 3 + first] = clip(Math.round(y + 1.14 * dv));
  }
  return { pixels: out, width, height };
}
