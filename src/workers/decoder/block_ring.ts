/**
 * Blocks between the store and the device, in memory of the host. Threads of the store open the next blocks of a prompt while
 * the device copies those before, and they seal and write what the device has copied here.
 */
import { errorText } from "../../lib/error_text.ts";
import type { Device, HostMemory } from "../../native/cuda/decode/kernels.ts";
import type { BlockLanes, BlockStore } from "./types.ts";

const PLACES = 24;
const WRITES = PLACES / 2; // at once
const PAUSE_MS = 2;

/** `name`: of the block that is read here, until it is taken. `turn`: the last call that wanted it. */
type RingPlace = { index: number; memory: HostMemory; name: string | null; turn: number };
type Write = { place: RingPlace; name: string; bytes: number; isCopied: boolean };
export type Taken = { content: Uint8Array; queued: () => void };

/** Null: the store has no threads, or there is no memory for them. */
export function openRing(device: Device, store: BlockStore, blockBytes: number): BlockRing | null {
  if (store.threads === 0) return null;
  const memory = memoryOf(device, blockBytes);
  const lanes = memory.length === 0 ? null : store.lanes(memory.map(({ at }) => ({ at, bytes: blockBytes })));
  if (lanes) return new BlockRing(store, lanes, memory);
  for (const each of memory) each.free();
  return null;
}

/** Empty: the device cannot copy by itself here, so the decoding thread reads and writes blocks. */
function memoryOf(device: Device, blockBytes: number): readonly HostMemory[] {
  try {
    return device.hostMemory(blockBytes, PLACES);
  } catch (error) {
    process.stderr.write(`prompts on the disk come without threads: ${errorText(error)}\n`);
    return [];
  }
}

export class BlockRing {
  readonly #store: BlockStore;
  readonly #lanes: BlockLanes;
  readonly #places: readonly RingPlace[];
  readonly #reads = new Map<string, RingPlace>();
  #writes: Write[] = [];
  #turn = 0;

  constructor(store: BlockStore, lanes: BlockLanes, memory: readonly HostMemory[]) {
    this.#store = store;
    this.#lanes = lanes;
    this.#places = memory.map((each, index) => ({ index, memory: each, name: null, turn: 0 }));
  }

  /** Lets the threads begin with the block `names[index]` and those behind it. */
  begin(names: readonly string[], index: number) {
    this.#turn++;
    const near = names.slice(index, index + PLACES);
    for (const name of near) {
      const place = this.#reads.get(name);
      if (place) place.turn = this.#turn;
    }
    for (const name of near) {
      if (this.#reads.has(name)) continue;
      const place = this.#free();
      if (!place) break;
      Object.assign(place, { name, turn: this.#turn });
      this.#reads.set(name, place);
      this.#lanes.read(place.index, name);
    }
  }

  /**
   * Returns the block `names[index]`, and lets the threads begin with those behind it. Null: it must be read from the store.
   * Undefined: it has not come until the time `until`.
   */
  take(names: readonly string[], index: number, until: number): Taken | null | undefined {
    this.begin(names, index);
    const place = this.#reads.get(names[index]!);
    if (!place) return null;
    const bytes = this.#lanes.result(place.index, until);
    if (bytes === undefined) return undefined;
    this.#leave(place);
    if (bytes === null) return null;
    this.#store.brought(bytes);
    return { content: place.memory.bytes.subarray(0, bytes), queued: place.memory.queued };
  }

  /** Queues the copies of a block that is to be written. False: there is no place now. */
  add(name: string, bytes: number, copy: (into: Uint8Array) => void): boolean {
    const place = this.#writes.length < WRITES ? this.#free() : undefined;
    if (!place) return false;
    copy(place.memory.bytes);
    place.memory.queued();
    this.#writes.push({ place, name, bytes, isCopied: false });
    return true;
  }

  isWriting = (name: string) => this.#writes.some((write) => write.name === name);

  /** Hands copied blocks to the threads and counts written ones. Returns how many are under way. */
  settle(mayWait: boolean): number {
    const until = mayWait ? performance.now() + PAUSE_MS : 0;
    this.#writes = this.#writes.filter((write) => {
      const { place, name, bytes } = write;
      if (!write.isCopied) {
        write.isCopied = place.memory.isOver();
        if (write.isCopied) this.#lanes.write(place.index, name, bytes);
        return true;
      }
      const written = this.#lanes.result(place.index, until);
      if (written === undefined) return true;
      if (written === null) this.#store.write(name, place.memory.bytes.slice(0, bytes));
      else this.#store.wrote(written);
      return false;
    });
    return this.#writes.length;
  }

  /** The device has carried out all copies. */
  free() {
    this.#lanes.close();
    for (const { memory } of this.#places) memory.free();
  }

  #leave(place: RingPlace) {
    if (place.name !== null) this.#reads.delete(place.name);
    place.name = null;
  }

  /** Prompts may end before their blocks have come: such a place is free when its read is over. */
  #free(): RingPlace | undefined {
    const place = this.#places.find(
      ({ index, name, turn, memory }) =>
        (name === null || turn < this.#turn) &&
        !this.#lanes.isUnderWay(index) &&
        memory.isOver() &&
        !this.#writes.some((write) => write.place.index === index),
    );
    if (place) this.#leave(place);
    return place;
  }
}
