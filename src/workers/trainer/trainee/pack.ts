/**
 * Packs sequences into rows of at most `capacity` tokens: first fit, longest first. Deterministic: among equal lengths
 * the earlier sequence goes first. It needs at most 11/9 of the best possible number of rows, plus one.
 */

/** The position of a sequence in its row. */
export type Span = { sequence: number; start: number; length: number };
export type PackedRow = { used: number; spans: Span[] };

export function pack(lengths: readonly number[], capacity: number): PackedRow[] {
  const tooLong = lengths.findIndex((length) => length > capacity);
  if (tooLong >= 0)
    throw new RangeError(
      `sequence ${tooLong} has ${lengths[tooLong]} tokens, but a row holds ${capacity}. Cut it first`,
    );
  const longestFirst = lengths.map((_, i) => i).sort((a, b) => lengths[b]! - lengths[a]! || a - b);
  const rows: PackedRow[] = [];
  const room = openRoom(lengths.length, capacity);
  for (const sequence of longestFirst) {
    const length = lengths[sequence]!;
    if (length === 0) continue;
    const index = room.firstWith(length);
    rows[index] ??= { used: 0, spans: [] };
    const row = rows[index];
    row.spans.push({ sequence, start: row.used, length });
    row.used += length;
    room.set(index, capacity - row.used);
  }
  return rows;
}

type Room = { firstWith: (length: number) => number; set: (row: number, free: number) => void };

/** A tree of maxima over the rows' free space: finding the first row that fits takes log(rows) steps. */
function openRoom(rows: number, capacity: number): Room {
  const leaves = 2 ** Math.ceil(Math.log2(Math.max(rows, 1)));
  const most = new Float64Array(2 * leaves).fill(capacity); // node i has the children 2i and 2i + 1
  return {
    firstWith: (length) => {
      let node = 1;
      while (node < leaves) node = most[2 * node]! >= length ? 2 * node : 2 * node + 1;
      return node - leaves;
    },
    set: (row, free) => {
      let node = leaves + row;
      most[node] = free;
      for (node >>= 1; node >= 1; node >>= 1) most[node] = Math.max(most[2 * node]!, most[2 * node + 1]!);
    },
  };
}
