/**
 * Pages of keys and values as blocks outside the device. A block is some pages of one sequence, layer by layer, as they lie
 * on the device. Only pages of prompts become blocks: what a step of decoding leaves may differ in the last bits.
 */
import { type Device, PAGE } from "../../native/cuda/decode/kernels.ts";
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
  #jobs: Job[] = [];

  constructor(device: Device, at: PoolAt, pages: PageTable, store: BlockStore) {
    this.store = store;
    this.#device = device;
    this.#at = at;
    this.#pages = pages;
    this.#perBlock = store.tokens / PAGE;
  }

  /** How many tokens from `done` on are in blocks that the store has. `done` is at the beginning of a page. */
  ahead(names: readonly string[], done: number): number {
    const first = Math.floor(done / this.store.tokens);
    let index = first;
    while (index < names.length && this.store.has(names[index]!)) index++;
    return index === first ? 0 : index * this.store.tokens - done;
  }

  isNext(names: readonly string[], done: number): boolean {
    const name = names[Math.floor(done / this.store.tokens)];
    return name !== undefined && done % PAGE === 0 && this.store.has(name);
  }

  /** Fills the pages of the block behind `done` tokens. Returns the tokens that are filled then: `done` if there is no such block. */
  bring(names: readonly string[], table: readonly number[], done: number): number {
    const index = Math.floor(done / this.store.tokens);
    const name = names[index];
    if (name === undefined || done % PAGE !== 0) return done;
    const begun = performance.now();
    const { pool, layers, layerBytes, pageBytes } = this.#at;
    const content = this.store.read(name);
    if (content?.length !== layers * this.#perBlock * pageBytes) {
      if (content) this.store.drop(name);
      return done;
    }
    let from = 0;
    for (let layer = 0; layer < layers; layer++)
      for (let i = 0; i < this.#perBlock; i++, from += pageBytes) {
        const page = index * this.#perBlock + i;
        if (page * PAGE < done) continue; // it is shared
        this.#device.put(
          pool + layer * layerBytes + table[page]! * pageBytes,
          content.subarray(from, from + pageBytes),
        );
      }
    const filled = (index + 1) * this.store.tokens;
    this.store.restored(filled - done, performance.now() - begun);
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

  /** Writes one block. Returns false if there is none, or no room for it. */
  keep(): boolean {
    const job = this.#jobs[0];
    if (!job) return false;
    const { pool, layers, layerBytes, pageBytes } = this.#at;
    const name = job.names[job.next]!;
    if (!this.store.has(name)) {
      if (!this.store.hasRoom(layers * this.#perBlock * pageBytes)) return false;
      const own = job.pages.slice(job.next * this.#perBlock, (job.next + 1) * this.#perBlock);
      const pieces = Array.from({ length: layers }, (_, layer) =>
        own.map((page) => ({ at: pool + layer * layerBytes + page * pageBytes, bytes: pageBytes })),
      );
      if (!this.store.write(name, this.#device.gather(pieces.flat()))) return false;
    }
    if (++job.next === job.names.length) this.#end(job);
    return true;
  }

  /** Gives up what is not written: the pages are needed, or hold something else from now on. */
  forget() {
    for (const job of [...this.#jobs]) this.#end(job);
  }

  #end(job: Job) {
    this.#jobs = this.#jobs.filter((other) => other !== job);
    this.#pages.drop(job.pages);
  }
}
