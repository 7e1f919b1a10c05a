/**
 * Pages of keys and values, by number. Pages of the same beginning are shared by reference; a page that is only partly
 * filled is copied. Released pages stay findable until their room is needed. Admission reserves the pages of the longest
 * possible answer, so a running sequence never runs out of them. No effects.
 */
import { PAGE } from "../../native/cuda/decode/kernels.ts";

export type Lease = {
  /** Pages in the order of the sequence. */
  readonly table: number[];
  /** Tokens at the beginning that are already in its pages, after `copies`. */
  readonly cached: number;
  /** Pages to copy before use: source and target. */
  readonly copies: readonly (readonly [from: number, to: number])[];
  /** Pages that may still be taken. */
  reserved: number;
};

/** An entry of the tree of known beginnings: the key holds the parent's id, so it names all tokens before it. */
type Entry = { id: number; key: string; page: number; length: number };
const ROOT = 0;

export class PageTable {
  readonly count: number;
  readonly #free: number[];
  readonly #users: Int32Array;
  readonly #known = new Map<string, Entry>();
  readonly #ofPage = new Map<number, Entry[]>();
  /** Pages without a user that are still known; the least recently used first. */
  readonly #idle = new Set<number>();
  #reserved = 0;
  #ids = ROOT;

  constructor(count: number) {
    this.count = count;
    this.#free = Array.from({ length: count }, (_, i) => count - 1 - i);
    this.#users = new Int32Array(count);
  }

  /** Pages that no sequence uses or has reserved. */
  get available() {
    return this.#free.length + this.#idle.size - this.#reserved;
  }

  /**
   * Reserves room for `total` tokens, of which `tokens` are known. Returns null if there is not enough. The pages of
   * `tokens` beyond `cached` must be filled before the next admission is filled: they count as known from now on.
   * `isFresh`: the lease shares no known pages. `owner`: the adapter that fills the pages; only its own sequences share them.
   */
  admit(tokens: Int32Array, total: number, { isFresh = false, owner = 0 } = {}): Lease | null {
    const { shared, partial, parent } = this.#find(isFresh ? tokens.subarray(0, 0) : tokens, ROOT - owner);
    const idle = shared.filter((page) => this.#users[page] === 0).length;
    const needed = Math.ceil(total / PAGE) - shared.length;
    if (needed + idle > this.available) return null;
    for (const page of shared) this.#use(page);
    this.#reserved += needed;
    const cached = partial ? tokens.length : shared.length * PAGE;
    const lease: Lease = { table: shared, reserved: needed, cached, copies: [] };
    if (partial) return this.#begin(lease, partial.page);
    let before = parent;
    for (let at = cached; at < tokens.length; at += PAGE) {
      this.grow(lease, at);
      before = this.#learn(before, tokens.subarray(at, at + PAGE), lease.table.at(-1)!);
    }
    return lease;
  }

  /** Gives back the pages that the lease does not have yet. */
  lend(lease: Lease) {
    this.#reserved -= lease.reserved;
    lease.reserved = 0;
  }

  /** Reserves again what was lent: `total` as of its admission. False: there is not enough. */
  reserve(lease: Lease, total: number): boolean {
    const needed = Math.ceil(total / PAGE) - lease.table.length;
    if (needed > this.available) return false;
    lease.reserved = needed;
    this.#reserved += needed;
    return true;
  }

  /** Makes sure that the lease has a page for this position. Returns the index of a new page, or -1. */
  grow(lease: Lease, position: number): number {
    const index = Math.floor(position / PAGE);
    if (index < lease.table.length) return -1;
    if (lease.reserved === 0) throw new Error("A sequence needs more pages than it has reserved");
    lease.reserved--;
    this.#reserved--;
    lease.table.push(this.#take());
    return index;
  }

  /** `filled`: tokens that are in the pages. What was to follow is forgotten, unless another sequence will fill it. */
  release(lease: Lease, filled = Number.POSITIVE_INFINITY) {
    const pages = lease.table.splice(0);
    for (const [i, page] of [...pages.entries()].reverse()) {
      if ((i + 1) * PAGE > filled && this.#users[page] === 1 && this.#isKnownBeyond(page, filled - i * PAGE))
        this.#forget(page);
      this.#leave(page);
    }
    this.lend(lease);
  }

  /** Keeps the content of these pages, which a sequence uses now. */
  hold(pages: readonly number[]) {
    for (const page of pages) this.#use(page);
  }

  drop(pages: readonly number[]) {
    for (const page of pages) this.#leave(page);
  }

  /** Forgets what idle pages hold, for example because the weights have changed. */
  clear() {
    for (const page of this.#idle) this.#free.push(page);
    this.#idle.clear();
    this.#known.clear();
    this.#ofPage.clear();
  }

  /** The last page is partly filled. An idle one is continued, one in use is copied. */
  #begin(lease: Lease, from: number): Lease {
    if (this.#users[from] === 0) {
      this.#use(from);
      lease.reserved--;
      this.#reserved--;
      lease.table.push(from);
      return lease;
    }
    this.grow(lease, lease.table.length * PAGE);
    return { ...lease, copies: [[from, lease.table.at(-1)!]] };
  }

  /** `root`: ROOT, or a number below it for each adapter. */
  #find(tokens: Int32Array, root: number) {
    const shared: number[] = [];
    let parent = root;
    let at = 0;
    for (; at + PAGE <= tokens.length; at += PAGE) {
      const entry = this.#known.get(keyOf(parent, tokens.subarray(at, at + PAGE)));
      if (!entry) return { shared, partial: undefined, parent };
      shared.push(entry.page);
      parent = entry.id;
    }
    const partial = at < tokens.length ? this.#known.get(keyOf(parent, tokens.subarray(at))) : undefined;
    return { shared, partial, parent };
  }

  #learn(parent: number, tokens: Int32Array, page: number): number {
    const key = keyOf(parent, tokens);
    const entry = { id: ++this.#ids, key, page, length: tokens.length };
    this.#known.set(key, entry);
    this.#ofPage.set(page, [...(this.#ofPage.get(page) ?? []), entry]);
    return entry.id;
  }

  #take(): number {
    let page = this.#free.pop();
    if (page === undefined) {
      const [oldest] = this.#idle;
      if (oldest === undefined) throw new Error("There is no free page, although one was reserved");
      this.#idle.delete(oldest);
      this.#forget(oldest);
      page = oldest;
    }
    this.#users[page] = 1;
    return page;
  }

  #forget(page: number) {
    for (const entry of this.#ofPage.get(page) ?? [])
      if (this.#known.get(entry.key) === entry) this.#known.delete(entry.key);
    this.#ofPage.delete(page);
  }

  #isKnownBeyond(page: number, places: number) {
    return (this.#ofPage.get(page) ?? []).some(({ length }) => length > places);
  }

  #use(page: number) {
    this.#users[page]!++;
    this.#idle.delete(page);
  }

  #leave(page: number) {
    if (--this.#users[page]! > 0) return;
    if (this.#ofPage.has(page)) this.#idle.add(page);
    else this.#free.push(page);
  }
}

const keyOf = (parent: number, tokens: Int32Array) => `${parent}:${tokens.join()}`;
