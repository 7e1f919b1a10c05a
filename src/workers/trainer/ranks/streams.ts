/**
 * The exchange between ranks of several nodes, over streams. Rank 0 has a stream to each other rank and passes on what
 * they have for each other. The additions are those of `shared_memory.ts`, in the same order.
 */
import type { Peer } from "./peers.ts";
import { add, segmentsOf } from "./segments.ts";
import type { Ranks } from "./types.ts";

type Seat = {
  index: number;
  count: number;
  /** Default: one for each rank. */
  parts?: number;
  /** By rank. Ranks after the first have only that of rank 0. */
  peers: ReadonlyMap<number, Peer>;
};

export function joinStreams({ index, count, parts = count, peers }: Seat): Ranks {
  const last = count - 1;
  const peerOf = (rank: number) => peers.get(rank)!;
  const others = Array.from({ length: last }, (_, i) => i + 1);
  const complete = createQueue<Float32Array>(); // of the last rank

  return {
    index,
    count,
    parts,
    async gather(own) {
      if (index > 0) {
        await peerOf(0).send("message", own);
        return unpack(await peerOf(0).next("message"), count);
      }
      const all = [own];
      for (const rank of others) all.push(await peerOf(rank).next("message"));
      const packed = pack(all);
      await Promise.all(others.map((rank) => peerOf(rank).send("message", packed)));
      return all;
    },
    gradients: {
      async publish(given, length) {
        for (const { from, to } of segmentsOf(length)) {
          const sum = index === 0 ? new Float32Array(to - from) : floatsOf(await peerOf(0).next("sum"));
          for (const part of given) add(sum, from, part);
          if (index === last) complete.push(sum);
          await peerOf(index === 0 ? 1 : 0).send("sum", bytesOf(sum));
        }
      },
      async collect(length, take) {
        const relays = index === 0 ? others.slice(0, -1).map((rank) => relay(rank, length)) : [];
        for (const { from } of segmentsOf(length)) take({ at: from, values: await nextTotal() });
        await Promise.all(relays);
      },
    },
  };

  /** Passes the sums of one rank to the next. */
  async function relay(rank: number, length: number) {
    for (const _ of segmentsOf(length)) await peerOf(rank + 1).send("sum", await peerOf(rank).next("sum"));
  }

  async function nextTotal(): Promise<Float32Array> {
    if (index > 0 && index < last) return floatsOf(await peerOf(0).next("total"));
    if (index === last) return await complete.next(); // `publish` runs at the same time, and throws if rank 0 is gone
    const total = await peerOf(last).next("sum");
    await Promise.all(others.slice(0, -1).map((rank) => peerOf(rank).send("total", total)));
    return floatsOf(total);
  }
}

function createQueue<T>() {
  const items: T[] = [];
  let waiting: ((item: T) => void) | undefined;
  return {
    push(item: T) {
      if (!waiting) return void items.push(item);
      waiting(item);
      waiting = undefined;
    },
    next: () =>
      new Promise<T>((done) => {
        if (items.length > 0) done(items.shift()!);
        else waiting = done;
      }),
  };
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array) => new Uint8Array(buffer, byteOffset, byteLength);
/** The bytes of a frame begin at the start of their buffer. */
const floatsOf = ({ buffer, byteLength }: Uint8Array) => new Float32Array(buffer, 0, byteLength / 4);

/** The lengths of all messages, then the messages. */
function pack(all: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat([bytesOfLengths(all.map(({ length }) => length)), ...all]);
}

const bytesOfLengths = (lengths: readonly number[]) => new Uint8Array(Uint32Array.from(lengths).buffer);

function unpack(bytes: Uint8Array, count: number): Uint8Array[] {
  const lengths = new Uint32Array(bytes.buffer, 0, count);
  let at = 4 * count;
  return Array.from(lengths, (length) => {
    at += length;
    return bytes.subarray(at - length, at);
  });
}
