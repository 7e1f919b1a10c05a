/** Shared memory in which the decoding thread and its lanes tell each other about the places of blocks. */
export const STATE = { free: 0, read: 1, write: 2, busy: 3, done: 4, failed: 5 } as const;
export type State = (typeof STATE)[keyof typeof STATE];

const MOST_LANES = 32;
const NAME_BYTES = 64;
const [BELL, AWAKE] = [0, 1];
const SLOTS_AT = AWAKE + MOST_LANES;
const SLOT_WORDS = 2 + NAME_BYTES / 4; // state, length, name

export class Control {
  readonly memory: SharedArrayBuffer;
  readonly #words: Int32Array;

  constructor(slots: number, memory = new SharedArrayBuffer((SLOTS_AT + slots * SLOT_WORDS) * 4)) {
    this.memory = memory;
    this.#words = new Int32Array(memory);
  }

  /** Asks the lanes for a read or a write. */
  want(slot: number, state: State, { name, length }: { name: string; length: number }) {
    const at = SLOTS_AT + slot * SLOT_WORDS;
    this.#words[at + 1] = length;
    new Uint8Array(this.memory, (at + 2) * 4, NAME_BYTES).set(Buffer.from(name, "latin1"));
    Atomics.store(this.#words, at, state);
    Atomics.add(this.#words, BELL, 1);
    Atomics.notify(this.#words, BELL);
  }

  /** Null: there is nothing to do for this place, or another lane does it. */
  claim(slot: number): "read" | "write" | null {
    const at = SLOTS_AT + slot * SLOT_WORDS;
    for (const what of ["read", "write"] as const)
      if (Atomics.compareExchange(this.#words, at, STATE[what], STATE.busy) === STATE[what]) return what;
    return null;
  }

  settle(slot: number, state: State, length: number) {
    const at = SLOTS_AT + slot * SLOT_WORDS;
    this.#words[at + 1] = length;
    Atomics.store(this.#words, at, state);
    Atomics.notify(this.#words, at);
  }

  state(slot: number): State {
    return Atomics.load(this.#words, SLOTS_AT + slot * SLOT_WORDS) as State;
  }

  length = (slot: number) => this.#words[SLOTS_AT + slot * SLOT_WORDS + 1]!;
  name = (slot: number) =>
    Buffer.from(this.memory, (SLOTS_AT + slot * SLOT_WORDS + 2) * 4, NAME_BYTES).toString("latin1");

  /** Waits until the place has another state, for so long. */
  waitWhile(slot: number, state: State, ms: number) {
    Atomics.wait(this.#words, SLOTS_AT + slot * SLOT_WORDS, state, ms);
  }

  get rung(): number {
    return Atomics.load(this.#words, BELL);
  }

  /** False: nothing came. */
  waitForBell(rung: number, ms: number): boolean {
    return Atomics.wait(this.#words, BELL, rung, ms) !== "timed-out";
  }

  awake(lane: number, isAwake: boolean) {
    Atomics.store(this.#words, AWAKE + lane, isAwake ? 1 : 0);
  }

  isAwake = (lane: number) => Atomics.load(this.#words, AWAKE + lane) === 1;
}
