/**
 * Decodes the hybrid of runs and packed bits that stores levels and dictionary indexes. It never returns more than
 * `count` values, even if a run claims more.
 */
export function readHybrid(bytes: Uint8Array, width: number, count: number): Uint32Array {
  const out = new Uint32Array(count);
  if (width === 0) return out;
  if (width > 32) throw new Error(`a page claims values of ${width} bits`);
  let at = 0;
  let seen = 0;
  const next = () => {
    const byte = bytes[at++];
    if (byte === undefined) throw new Error("a page ends too early");
    return byte;
  };
  while (seen < count) {
    let head = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = next();
      head += (byte & 0x7f) * scale;
      if (byte < 0x80) break;
      if (scale > 2 ** 28) throw new Error("a page claims an endless run");
    }
    if (head % 2 === 1) {
      const packed = Math.min(((head - 1) / 2) * 8, count - seen);
      unpack(bytes, at, width, out.subarray(seen, seen + packed));
      at += ((head - 1) / 2) * width;
      seen += packed;
    } else {
      let value = 0;
      for (let i = 0; i < width; i += 8) value += next() * 2 ** i;
      const end = Math.min(seen + head / 2, count);
      out.fill(value, seen, end);
      seen = end;
    }
  }
  return out;
}

/** Bits are read from the least significant one. A value of up to 32 bits can span five bytes. */
function unpack(bytes: Uint8Array, from: number, width: number, out: Uint32Array) {
  if (from + Math.ceil((out.length * width) / 8) > bytes.length) throw new Error("a page ends too early");
  const mask = width === 32 ? 0xffffffff : 2 ** width - 1;
  for (let i = 0; i < out.length; i++) {
    const bit = i * width;
    const at = from + (bit >>> 3);
    const shift = bit & 7;
    const low =
      (bytes[at]! | ((bytes[at + 1] ?? 0) << 8) | ((bytes[at + 2] ?? 0) << 16) | ((bytes[at + 3] ?? 0) << 24)) >>>
      shift;
    const high = shift > 0 && shift + width > 32 ? (bytes[at + 4] ?? 0) << (32 - shift) : 0;
    out[i] = (low | high) & mask;
  }
}

/** Returns the number of bits that hold `most`. */
export const widthOf = (most: number) => 32 - Math.clz32(most);
