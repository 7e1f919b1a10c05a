/**
 * Finds a duplicate among very many tokens without making an object of each: an open-addressed table of positions.
 * Native code asserts that there is none, and reads a token only up to its first zero byte. It gives an empty token a
 * name that no other may have.
 */
export function createDistinct(bytes: Uint8Array, count: number) {
  let size = 16;
  while (size < count * 2) size *= 2;
  const starts = new Float64Array(size).fill(-1); // positions exceed 2^31
  const lengths = new Uint32Array(size);
  let empty = false;
  let placeholder = false;

  const same = (slot: number, start: number, length: number) => {
    if (lengths[slot] !== length) return false;
    const other = starts[slot] as number;
    for (let i = 0; i < length; i++) if (bytes[other + i] !== bytes[start + i]) return false;
    return true;
  };

  /** Returns false for a duplicate. */
  return (start: number, end: number): boolean => {
    let hash = 0x811c9dc5;
    let length = 0;
    for (; start + length < end && bytes[start + length] !== 0; length++)
      hash = Math.imul(hash ^ (bytes[start + length] as number), 0x01000193);
    empty ||= length === 0;
    placeholder ||= PLACEHOLDER.every((byte, i) => bytes[start + i] === byte);
    if (length === 0 || (empty && placeholder)) return !(empty && placeholder);
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

const PLACEHOLDER = new TextEncoder().encode("[EMPTY_");
