/** Threads beside the decoding thread that read and write blocks in memory of the device's host. */
import { compiled } from "../../../../native/bundle/embedded.ts";
import type { BlockLanes, HostPlace } from "../../../decoder/types.ts";
import type { BlockKeys } from "./block.ts";
import type { LaneMessage } from "./lane.ts";
import { Control, STATE, type State } from "./lane_control.ts";

/** In the executable the thread is an entry point of its own (scripts/bundle/program.ts). */
const LANE = compiled ? "/$bunfs/root/workers/serving/engine/prefixes/lane.js" : new URL("./lane.ts", import.meta.url);

export type LanesOptions = { threads: number; dir: string; keys: BlockKeys; memory: readonly HostPlace[] };

export function openLanes({ threads, dir, keys, memory }: LanesOptions): BlockLanes {
  const control = new Control(memory.length);
  const post = (thread: Worker, message: LaneMessage) => thread.postMessage(message);
  const lanes = Array.from({ length: threads }, (_, lane) => {
    const thread = new Worker(LANE);
    post(thread, { type: "begin", lane, control: control.memory, memory, dir, keys });
    return thread;
  });
  const want = (slot: number, state: State, of: { name: string; length: number }) => {
    control.want(slot, state, of);
    for (const [lane, thread] of lanes.entries()) if (!control.isAwake(lane)) post(thread, { type: "work" });
  };
  const isUnderWay = (state: State) => state === STATE.read || state === STATE.write || state === STATE.busy;
  return {
    read: (slot, name) => want(slot, STATE.read, { name, length: 0 }),
    write: (slot, name, length) => want(slot, STATE.write, { name, length }),
    isUnderWay: (slot) => isUnderWay(control.state(slot)),
    result(slot, until) {
      for (;;) {
        const state = control.state(slot);
        if (!isUnderWay(state)) return state === STATE.done ? control.length(slot) : null;
        const ms = until - performance.now();
        if (ms <= 0) return undefined;
        control.waitWhile(slot, state, ms);
      }
    },
    close() {
      for (const thread of lanes) thread.terminate();
    },
  };
}
