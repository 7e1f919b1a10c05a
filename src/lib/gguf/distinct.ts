/**
 * Finds a byte string that comes twice among very many, without making an object of any: an open-addressed table of
 * positions. Native code asserts that no token comes twice.
 */
export function createDistinct(bytes: Uint8Array, count: number) {
  let size = 16;
  while (size < count * 2) size *= 2;
  const starts = new Float64Array(size).fill(-1); // positions go beyond 2^31
  const lengths = new Uint32Array(size);

  const same = (slot: number, start: number, length: number) => {
    if (lengths[slot] !== length) return false;
    const other = starts[slot] as number;
    for (let i = 0; i < length; i++) if (bytes[other + i] !== bytes[start + i]) return false;
    return true;
  };

  /** False when it was there before. */
  return (start: number, length: number): boolean => {
    let hash = 0x811c9dc5;
    for (let i = 0; i < length; i++) hash = Math.imul(hash ^ (bytes[start + i] as number), 0x01000193);
    let slot = (hash ^ (hash >>> 15)) & (size - 1);
    while ((starts[slot] as number) >= 0) {
      if (same(slot, start, length)) return false;
      slot = (slot + 1) & (size - 1);
    }
    starts[slot] = start;
    lengths[slot] = length;
    return true;
  };
}
