import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { tempDir } from "../../../../test/harness.ts";
import { openRandom } from "../../../lib/random.ts";
import { helloFrame } from "../../protocol_trainer.ts";
import { acceptPeers, createReader } from "./peers.ts";
import { joinStreams } from "./streams.ts";
import type { Part, Ranks } from "./types.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
let made = 0;

/** Joins the sockets of the ranks as their supervisors do. */
async function seats(count: number) {
  const path = (rank: number) => join(dir, `${made}-${rank}.sock`);
  made++;
  const paths = Array.from({ length: count }, (_, rank) => path(rank));
  const accepted = paths.map((socketPath, rank) =>
    acceptPeers({ socketPath, count: rank === 0 ? count - 1 : 1, onTurn() {} }),
  );
  const links = paths.slice(1).map((each, i) => {
    const [near, far] = [connect(paths[0]!), connect(each)];
    near.write(helloFrame(i + 1));
    far.write(helloFrame(0));
    near.pipe(far);
    far.pipe(near);
    return { near, far };
  });
  const peers = await Promise.all(accepted);
  return { links, all: peers.map((each, index): Ranks => joinStreams({ index, count, peers: each })) };
}

const LENGTH = 600_001; // several segments

test.each([2, 3, 4])("the sum over %d ranks has the bits of one process that adds in order", async (count) => {
  const random = openRandom(3);
  const values = () => Float32Array.from({ length: LENGTH }, () => (random() - 0.5) * 10 ** Math.floor(6 * random()));
  const own = Array.from({ length: count }, values);
  const extra: Part = { at: 262_000, values: values().slice(0, 1000) };
  const expected = new Float32Array(LENGTH);
  const add = (at: number, more: Float32Array) => {
    for (let i = 0; i < more.length; i++) expected[at + i]! += more[i]!;
  };
  for (const [rank, each] of own.entries()) {
    add(0, each);
    if (rank === count - 1) add(extra.at, extra.values);
  }
  const { all } = await seats(count);
  const sums = await Promise.all(
    all.map(async ({ gradients, index }) => {
      const sum = new Float32Array(LENGTH);
      const parts = [{ at: 0, values: own[index]! }, ...(index === count - 1 ? [extra] : [])];
      const take = (segment: Part) => sum.set(segment.values, segment.at);
      for (let step = 0; step < 2; step++)
        await Promise.all([gradients.publish(parts, LENGTH), gradients.collect(LENGTH, take)]);
      return sum;
    }),
  );
  for (const sum of sums) expect(Buffer.compare(Buffer.from(sum.buffer), Buffer.from(expected.buffer))).toBe(0);
});

test("messages of any length reach every rank", async () => {
  const sizes = [0, 5, 2_100_000];
  const { all } = await seats(3);
  const said = await Promise.all(
    all.map(async ({ gather, index }) => (await gather(new Uint8Array(sizes[index]!).fill(index + 1))).map(digest)),
  );
  const expected = sizes.map((size, rank) => digest(new Uint8Array(size).fill(rank + 1)));
  expect(said).toEqual([expected, expected, expected]);
});

const digest = (bytes: Uint8Array) => `${bytes.length} ${Bun.hash(bytes)}`;

test("a rank that is gone is named to those that wait for it", async () => {
  const { all, links } = await seats(2);
  const waiting = all.map((ranks) => ranks.gradients.collect(1, () => {}));
  void all[1]!.gradients.publish([], 1).catch(() => {});
  for (const socket of Object.values(links[0]!)) socket.destroy();
  await expect(waiting[0]!).rejects.toThrow("Rank 1 is gone");
  await expect(all[1]!.gather(new Uint8Array(1))).rejects.toThrow("Rank 0 is gone");
});

test("frames are whole however the stream is cut", () => {
  const stream = Buffer.concat([helloFrame(7), Buffer.from([1, 0, 0, 0, 0]), Buffer.from([2, 0, 0, 0, 2, 8, 9])]);
  for (const size of [1, 2, 3, 50]) {
    const frames: string[] = [];
    const read = createReader((kind, bytes) => frames.push(`${kind} ${[...bytes].join(",")}`));
    for (let at = 0; at < stream.length; at += size) read(stream.subarray(at, at + size));
    expect(frames).toEqual(["hello 0,0,0,7", "message ", "sum 8,9"]);
  }
});
