/** Threads beside the decoding thread that read and write blocks in memory of the device's host (native/shim/lanes.c). */
import { basename } from "node:path";
import { cstr } from "../../../../native/ffi.ts";
import type { Shim } from "../../../../native/shim/shim.ts";
import { tempPath } from "../../../../platform/files.ts";
import type { BlockLanes, HostPlace } from "../../../decoder/types.ts";
import { type BlockKeys, FORMAT, newNonce } from "./block.ts";

export type LanesOptions = {
  shim: Shim;
  threads: number;
  dir: string;
  keys: BlockKeys;
  memory: readonly HostPlace[];
};

const UNDER_WAY = -2;

/** Null: no thread can be started. */
export function openLanes({ shim, threads, dir, keys, memory }: LanesOptions): BlockLanes | null {
  const words = BigUint64Array.from(memory.flatMap(({ at, bytes }) => [BigInt(at), BigInt(bytes)]));
  const lanes = shim.verk_open_lanes(threads, cstr(dir), keys.content, FORMAT, words, memory.length);
  if (lanes === null) return null;
  const result = (place: number, ms: number) => Number(shim.verk_lanes_result(lanes, place, ms));
  const idle = new Set(memory.keys()); // places that were never used
  return {
    read(place, name) {
      idle.delete(place);
      shim.verk_lanes_read(lanes, place, cstr(name));
    },
    write(place, name, length) {
      idle.delete(place);
      const temp = cstr(basename(tempPath(dir)));
      shim.verk_lanes_write(lanes, place, cstr(name), length, temp, newNonce());
    },
    isUnderWay: (place) => !idle.has(place) && result(place, 0) === UNDER_WAY,
    result(place, until) {
      const length = result(place, Math.max(0, until - performance.now()));
      return length === UNDER_WAY ? undefined : length < 0 ? null : length;
    },
    close: () => shim.verk_close_lanes(lanes),
  };
}
