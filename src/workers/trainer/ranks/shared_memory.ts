/**
 * The exchange between the ranks of one machine, in memory that they share: counters, an outbox of each rank, and a few
 * segments through which sums of gradients pass. The memory has no name, so nothing is left when the ranks end.
 */
import { closeSync, ftruncateSync } from "node:fs";
import { memoryFile } from "../../../native/jail/jail.ts";
import { add, SEGMENT_FLOATS, segmentsOf } from "./segments.ts";
import type { Ranks } from "./types.ts";

const MOST_RANKS = 64;
const OUTBOX_BYTES = 1 << 20;
const SEGMENTS = 8;

/** One row of counters each. All of them wrap around. */
const COUNTERS = ["written", "read", "added", "collected", "pulse", "totalBytes"] as const;
type Counter = (typeof COUNTERS)[number];
const HEADER_BYTES = COUNTERS.length * MOST_RANKS * 4;
const sizeFor = (count: number) => HEADER_BYTES + count * OUTBOX_BYTES + SEGMENTS * SEGMENT_FLOATS * 4;

/** Returns a descriptor of zeroed memory for `count` ranks. */
export function newSharedMemory(count: number): number {
  if (count > MOST_RANKS) throw new RangeError(`${count} ranks are more than ${MOST_RANKS}`);
  const fd = memoryFile(new Uint8Array(0));
  try {
    ftruncateSync(fd, sizeFor(count));
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  return fd;
}

export type Seat = {
  index: number;
  count: number;
  /** Default: one for each rank. */
  parts?: number;
  /** The descriptor of the shared memory in this process. */
  fd: number;
  /** Called while this rank waits. It may throw. */
  onTurn: () => void;
};

export type LocalRanks = Ranks & {
  /** Shows the others that this rank is alive. */
  beat: () => void;
  /** Counts the beats of a rank. */
  pulse: (rank: number) => number;
};

export function joinSharedMemory({ index, count, parts = count, fd, onTurn }: Seat): LocalRanks {
  const memory = Bun.mmap(`/proc/self/fd/${fd}`);
  const counters = new Int32Array(memory.buffer, memory.byteOffset, HEADER_BYTES / 4);
  const outbox = (rank: number) => memory.subarray(HEADER_BYTES + rank * OUTBOX_BYTES).subarray(0, OUTBOX_BYTES);
  const segmentsAt = memory.byteOffset + HEADER_BYTES + count * OUTBOX_BYTES;
  const segment = (turn: number) =>
    new Float32Array(memory.buffer, segmentsAt + (turn % SEGMENTS) * SEGMENT_FLOATS * 4, SEGMENT_FLOATS);
  const everyone = Array.from({ length: count }, (_, rank) => rank);
  const at = (counter: Counter, rank: number) => COUNTERS.indexOf(counter) * MOST_RANKS + rank;
  const get = (counter: Counter, rank: number) => Atomics.load(counters, at(counter, rank));
  const put = (counter: Counter, value: number) => Atomics.store(counters, at(counter, index), value | 0);
  const until = (counter: Counter, ranks: readonly number[], value: number) =>
    waitFor(() => ranks.every((rank) => reached(get(counter, rank), value)), onTurn);

  let rounds = 0;
  /** Passes one chunk of each rank's message. */
  async function pass(chunk: Uint8Array, total: number): Promise<Uint8Array[]> {
    await until("read", everyone, rounds);
    outbox(index).set(chunk);
    put("totalBytes", total);
    put("written", ++rounds);
    await until("written", everyone, rounds);
    return everyone.map(outbox);
  }

  let [published, collected] = [0, 0]; // segments since the start
  return {
    index,
    count,
    parts,
    beat: () => void Atomics.add(counters, at("pulse", index), 1),
    pulse: (rank) => get("pulse", rank),
    async gather(own) {
      const whole: Uint8Array[] = [];
      for (let from = 0; from === 0 || whole.some(({ length }) => length > from); from += OUTBOX_BYTES) {
        const boxes = await pass(own.subarray(from, from + OUTBOX_BYTES), own.length);
        if (from === 0) for (const rank of everyone) whole.push(new Uint8Array(get("totalBytes", rank)));
        for (const [rank, all] of whole.entries())
          all.set(
            boxes[rank]!.subarray(0, Math.max(0, Math.min(OUTBOX_BYTES, all.length - from))),
            Math.min(from, all.length),
          );
        put("read", rounds);
      }
      return whole;
    },
    gradients: {
      async publish(parts, length) {
        for (const { from, to } of segmentsOf(length)) {
          if (index === 0) await until("collected", everyone, published + 1 - SEGMENTS);
          else await until("added", [index - 1], published + 1);
          const sum = segment(published).subarray(0, to - from);
          if (index === 0) sum.fill(0);
          for (const part of parts) add(sum, from, part);
          put("added", ++published);
        }
      },
      async collect(length, take) {
        for (const { from, to } of segmentsOf(length)) {
          await until("added", [count - 1], collected + 1);
          take({ at: from, values: segment(collected).subarray(0, to - from) });
          put("collected", ++collected);
        }
      },
    },
  };
}

/** True if a counter has passed `value`, even if both have wrapped around. */
const reached = (counter: number, value: number) => ((counter - value) | 0) >= 0;

const SPIN_MS = 2; // a rank that waits longer sleeps between looks

async function waitFor(isTrue: () => boolean, onTurn: () => void) {
  const begun = performance.now();
  while (!isTrue()) {
    onTurn();
    if (performance.now() - begun < SPIN_MS) await new Promise<void>((resolve) => setImmediate(resolve));
    else await Bun.sleep(1);
  }
}
