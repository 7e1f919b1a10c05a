import { expect, test } from "bun:test";
import { SERVING_BYTES } from "../lib/json/outside.ts";
import { HUB_LISTING } from "../resources/serving/models/hub/listing.ts";
import { readAside } from "./outside.ts";

const caller = { workspaceId: "ws_1" };
const file = (i: number) => ({ rfilename: `file-${i}.bin`, size: i, more: "x".repeat(100) });
const listing = (count: number) =>
  new TextEncoder().encode(JSON.stringify({ siblings: Array.from({ length: count }, (_, i) => file(i)), card: {} }));

test("a long text is parsed by a thread while this one goes on, and only what the form lets through comes back", async () => {
  const bytes = listing(10_000);
  expect(bytes.length).toBeGreaterThan(SERVING_BYTES);
  let turns = 0;
  const counting = setInterval(() => turns++, 1);
  const { siblings } = await readAside(HUB_LISTING, bytes, caller);
  clearInterval(counting);
  expect(turns).toBeGreaterThan(0);
  expect(siblings).toHaveLength(10_000);
  expect(siblings[7]).toEqual({ rfilename: "file-7.bin", size: 7 });
});

test("what the thread refuses is an error with the sender and the field; a text over the limit is never parsed", async () => {
  const wrong = new TextEncoder().encode(`{"siblings":${" ".repeat(SERVING_BYTES)}[{"rfilename":7}]}`);
  await expect(readAside(HUB_LISTING, wrong, caller)).rejects.toThrow(
    "the hub's list of files cannot be used: siblings.0.rfilename",
  );
  await expect(readAside(HUB_LISTING, listing(20_001), caller)).rejects.toThrow("siblings: must have at most");
  const bomb = new Uint8Array(HUB_LISTING.mostBytes + 1);
  await expect(readAside(HUB_LISTING, bomb, caller)).rejects.toThrow("has more than");
  const broken = new TextEncoder().encode("[".repeat(2 * SERVING_BYTES));
  await expect(readAside(HUB_LISTING, broken, caller)).rejects.toThrow("is not JSON");
});
