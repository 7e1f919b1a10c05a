/** A thread that reads, opens, seals and writes blocks, so that more cores than one do it. lanes.ts is its other side. */
import { toArrayBuffer } from "bun:ffi";
import type { Ptr } from "../../../../native/ffi.ts";
import type { BlockKeys } from "./block.ts";
import { readBlockFile, writeBlockFile } from "./block_file.ts";
import { Control, STATE } from "./lane_control.ts";

declare const self: { onmessage: (event: { data: LaneMessage }) => void };

/** `memory`: addresses, which are the same for every thread of the process. */
type Beginning = {
  lane: number;
  control: SharedArrayBuffer;
  memory: readonly { at: number; bytes: number }[];
  dir: string;
  keys: BlockKeys;
};
export type LaneMessage = ({ type: "begin" } & Beginning) | { type: "work" };
type Lane = Beginning & { words: Control; views: readonly Uint8Array[] };

const PATIENCE_MS = 20;

let lane: Lane | null = null;

self.onmessage = ({ data }) => {
  if (data.type === "begin") {
    const views = data.memory.map(({ at, bytes }) => new Uint8Array(toArrayBuffer(at as Ptr, 0, bytes)));
    lane = { ...data, words: new Control(data.memory.length, data.control), views };
  } else if (lane) work(lane);
};

/** Returns when nothing has come for a while. What comes then finds the lane asleep and sends a message. */
function work({ words, lane: own, ...rest }: Lane) {
  for (;;) {
    words.awake(own, true);
    const rung = words.rung;
    if (takeAny({ words, lane: own, ...rest })) continue;
    if (words.waitForBell(rung, PATIENCE_MS)) continue;
    words.awake(own, false);
    if (words.rung === rung) return;
  }
}

function takeAny({ words, views, dir, keys }: Lane): boolean {
  let isAny = false;
  for (const [slot, place] of views.entries()) {
    const wanted = words.claim(slot);
    if (wanted === null) continue;
    isAny = true;
    const file = { dir, name: words.name(slot), keys };
    try {
      if (wanted === "read") words.settle(slot, STATE.done, readBlockFile(file, place));
      else {
        writeBlockFile(file, place.subarray(0, words.length(slot)));
        words.settle(slot, STATE.done, words.length(slot));
      }
    } catch {
      words.settle(slot, STATE.failed, 0); // the decoding thread does it again, and learns why
    }
  }
  return isAny;
}
