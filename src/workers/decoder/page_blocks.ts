/**
 * Pages of keys and values as blocks outside the device. A block is some pages of one sequence, layer by layer, as they lie
 * on the device. Only pages of prompts become blocks: what a step of decoding leaves may differ in the last bits.
 */
import { type Device, type DeviceRows, type HostRows, PAGE } from "../../native/cuda/decode/kernels.ts";
import { type BlockRing, openRing } from "./block_ring.ts";
import type { PageTable } from "./pages.ts";
import type { BlockStore } from "./types.ts";

export type PoolAt = { pool: number; layers: number; layerBytes: number; pageBytes: number };
/** A prompt whose pages are on their way to the store. The pages are held until then. */
type Job = { names: readonly string[]; pages: readonly number[]; next: number };

const MOST_JOBS = 64;

export class PageBlocks {
  readonly store: BlockStore;
  readonly #device: Device;
  readonly #at: PoolAt;
  readonly #pages: PageTable;
  readonly #perBlock: number;
  readonly #blockBytes: number;
  readonly #ring: BlockRing | null;
  #jobs: Job[] = [];
  #waitedMs = 0; // for the next block

  constructor(device: Device, at: PoolAt, pages: PageTable, store: BlockStore) {
    this.store = store;
    this.#device = device;
    this.#at = at;
    this.#pages = pages;
    this.#perBlock = store.tokens / PAGE;
    this.#blockBytes = at.layers * this.#perBlock * at.pageBytes;
    this.#ring = openRing(device, store, this.#blockBytes);
  }

  /**
   * How many tokens from `done` on are in blocks that the store has, which begin to come. `done` is at the beginning of a
   * page.
   */
  ahead(names: readonly string[], done: number): number {
    const first = Math.floor(done / this.store.tokens);
    let index = first;
    if (index < names.length && this.store.has(names[index]!)) this.#ring?.begin(names, index);
    while (index < names.length && this.store.has(names[index]!)) index++;
    return index === first ? 0 : index * this.store.tokens - done;
  }

  isNext(names: readonly string[], done: number): boolean {
    const name = names[Math.floor(done / this.store.tokens)];
    return name !== undefined && done % PAGE === 0 && this.store.has(name);
  }

  /**
   * Fills the pages of the block behind `done` tokens. Returns the tokens that are filled then: `done` if there is no such
   * block. Null: it has not come until the time `until`.
   */
  bring(names: readonly string[], table: readonly number[], done: number, until: number): number | null {
    const index = Math.floor(done / this.store.tokens);
    const name = names[index];
    if (name === undefined || done % PAGE !== 0) return done;
    const begun = performance.now();
    const taken = this.#ring?.take(names, index, until);
    if (this.#ring && taken === undefined) {
      this.#waitedMs += performance.now() - begun;
      return null;
    }
    const content = taken?.content ?? this.store.read(name);
    if (content?.length !== this.#blockBytes) {
      if (content) this.store.drop(name);
      return done;
    }
    const first = index * this.#perBlock;
    this.#eachRun(table.slice(first, first + this.#perBlock), Math.floor(done / PAGE) - first, (on, from, rows) =>
      this.#device.putRows(on, content.subarray(from), rows),
    );
    taken?.queued();
    const filled = (index + 1) * this.store.tokens;
    this.store.restored(filled - done, this.#waitedMs + performance.now() - begun);
    this.#waitedMs = 0;
    return filled;
  }

  /** The prompt of a sequence is in its pages. */
  add(names: readonly string[], table: readonly number[]) {
    const next = names.findIndex((name) => !this.store.has(name));
    if (next < 0 || this.#jobs.length >= MOST_JOBS) return;
    const pages = table.slice(0, names.length * this.#perBlock);
    this.#pages.hold(pages);
    this.#jobs.push({ names, pages, next });
  }

  /** Writes one block. Returns false if there is none, or no room for it. `mayWait`: for blocks that threads write. */
  keep(mayWait: boolean): boolean {
    const writing = this.#ring?.settle(mayWait) ?? 0;
    const job = this.#jobs[0];
    if (!job) return writing > 0;
    const name = job.names[job.next]!;
    if (!this.store.has(name) && !this.#ring?.isWriting(name)) {
      if (!this.store.hasRoom(this.#blockBytes)) return writing > 0;
      const pages = job.pages.slice(job.next * this.#perBlock, (job.next + 1) * this.#perBlock);
      if (!this.#ring) {
        if (!this.store.write(name, this.#device.gather(this.#piecesOf(pages)))) return false;
      } else if (!this.#ring.add(name, this.#blockBytes, (into) => this.#fetch(pages, into))) return true;
    }
    if (++job.next === job.names.length) this.#end(job);
    return true;
  }

  #piecesOf(pages: readonly number[]) {
    const { pool, layers, layerBytes, pageBytes } = this.#at;
    return Array.from({ length: layers }, (_, layer) =>
      pages.map((page) => ({ at: pool + layer * layerBytes + page * pageBytes, bytes: pageBytes })),
    ).flat();
  }

  #fetch(pages: readonly number[], into: Uint8Array) {
    this.#eachRun(pages, 0, (on, from, rows) => this.#device.fetchRows(into.subarray(from), on, rows));
  }

  /** Pages of a block from `first` on: those that lie together on the device are copied as one, with a row for each layer. */
  #eachRun(pages: readonly number[], first: number, copy: (on: DeviceRows, from: number, rows: HostRows) => void) {
    const { pool, layers: rows, layerBytes, pageBytes } = this.#at;
    const stride = this.#perBlock * pageBytes;
    for (let i = Math.max(first, 0), end = i; i < pages.length; i = end) {
      while (end < pages.length && pages[end] === pages[i]! + end - i) end++;
      const on = { at: pool + pages[i]! * pageBytes, stride: layerBytes };
      copy(on, i * pageBytes, { rows, bytes: (end - i) * pageBytes, stride });
    }
  }

  /** Gives up what is not written: the pages are needed, or hold something else from now on. */
  forget() {
    for (const job of [...this.#jobs]) this.#end(job);
  }

  /** The device has carried out everything. */
  free() {
    this.#ring?.free();
  }

  #end(job: Job) {
    this.#jobs = this.#jobs.filter((other) => other !== job);
    this.#pages.drop(job.pages);
  }
}
