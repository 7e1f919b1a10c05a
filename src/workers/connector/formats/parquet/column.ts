/**
 * Reads one column of one row group, page by page. Memory holds a window of compressed bytes and the pages of the
 * current rows. All columns of a row group share one budget.
 */
import type { PageHeader } from "hyparquet";
import { parquetHeader } from "hyparquet/src/column.js";
import type { Chunk } from "./footer.ts";
import { checkSum, type Dictionary, type Page, readDictionary, readPage } from "./page.ts";
import type { Node } from "./schema.ts";
import type { ToText } from "./text.ts";

export type Read = (from: number, to: number) => Promise<Uint8Array<ArrayBuffer>>;

const COLLECTED_BYTES = 32 * 2 ** 20;

/** Memory that all pages together may take, in bytes. */
export class Budget {
  private used = 0;
  private uncollected = 0;
  constructor(private readonly most: number) {}
  take(bytes: number) {
    this.used += bytes;
    this.uncollected += bytes;
    if (this.uncollected > COLLECTED_BYTES) {
      Bun.gc(true); // the garbage collector does not see pages, which lie outside its heap; they would pile up
      this.uncollected = 0;
    }
    this.mustFit(this.used);
  }
  mustFit(bytes: number) {
    if (bytes > this.most)
      throw new Error(`its pages take more than ${this.most} bytes of memory at once. Write smaller pages`);
  }
  give(bytes: number) {
    this.used -= bytes;
  }
  /** Called at the end of a row group. */
  giveAll() {
    this.used = 0;
  }
}

const VALUE_BYTES = 24; // levels, references, views
const HEADER_BYTES = 64 * 1024;
const LONGEST_HEADER_BYTES = 4 * 2 ** 20;

type Source = { leaf: Node; chunk: Chunk; read: Read; windowBytes: number; budget: Budget; toText: ToText };
type LoadedPage = Page & { cost: number };

export class Column {
  private window: Uint8Array<ArrayBuffer> = new Uint8Array(0);
  private windowAt: number;
  private at: number;
  private values = 0;
  private dictionary: Dictionary | undefined;
  private readonly pages: LoadedPage[] = [];
  private i = 0; // position in the first page
  private k = 0; // position among the first page's non-null values
  private begun = 0; // rows that begin in the loaded pages and are not taken yet

  constructor(private readonly source: Source) {
    this.at = source.chunk.from;
    this.windowAt = this.at;
  }

  private get ended() {
    return this.values >= this.source.chunk.values || this.at >= this.source.chunk.to;
  }

  /** Number of complete rows. The last row of a repeated column is complete when the next has begun. */
  get ready(): number {
    return this.source.leaf.rep === 0 || this.ended ? this.begun : Math.max(0, this.begun - 1);
  }

  /** Loads pages. Zero rows are ready only at the end of the column. */
  async fill(): Promise<void> {
    while (this.ready === 0 && !this.ended) await this.nextPage();
  }

  get def(): number {
    const page = this.pages[0];
    if (!page) throw new Error(`column ${this.source.leaf.name} ends too early`);
    return page.defs ? page.defs[this.i]! : this.source.leaf.def;
  }

  /** 0 = a new row, or the end. */
  get rep(): number {
    return this.pages[0]?.reps?.[this.i] ?? 0;
  }

  /** Returns the JSON text of the current value, or null if there is none, and moves to the next. */
  take(): string {
    const page = this.pages[0];
    const there = this.def === this.source.leaf.def;
    if (!page) return "null"; // `def` has thrown
    if (this.rep === 0) this.begun--;
    const text = there ? page.text(this.k++) : "null";
    if (++this.i === page.count) this.drop();
    return text;
  }

  private drop() {
    this.source.budget.give(this.pages.shift()?.cost ?? 0);
    this.i = 0;
    this.k = 0;
  }

  private async nextPage(): Promise<void> {
    const { leaf, chunk, budget, toText } = this.source;
    const header = await this.header();
    budget.mustFit(header.compressed_page_size); // it is read as a whole
    const bytes = await this.bytes(header.compressed_page_size);
    this.at += bytes.byteLength;
    if (header.type === "INDEX_PAGE") return;
    checkSum(header, bytes);
    if (header.type === "DICTIONARY_PAGE") {
      budget.take(3 * header.uncompressed_page_size); // held until the end of the row group
      this.dictionary = readDictionary(header, bytes, leaf, chunk.codec, toText);
      return;
    }
    const count = (header.data_page_header ?? header.data_page_header_v2)?.num_values ?? 0;
    if (count < 0 || this.values + count > chunk.values)
      throw new Error(`a page of ${leaf.name} claims ${count} values`);
    const cost = header.uncompressed_page_size + count * VALUE_BYTES;
    budget.take(cost);
    this.values += count;
    if (count === 0) return budget.give(cost);
    const page = readPage({ header, bytes, leaf, codec: chunk.codec }, this.dictionary, toText);
    if (this.values === count && page.reps?.[0]) throw new Error(`column ${leaf.name} begins in the middle of a row`);
    this.pages.push({ ...page, cost });
    if (page.reps) for (const rep of page.reps) this.begun += rep === 0 ? 1 : 0;
    else this.begun += count;
  }

  private async header(): Promise<PageHeader> {
    const left = this.source.chunk.to - this.at;
    for (let length = HEADER_BYTES; ; length *= 8) {
      const bytes = await this.bytes(Math.min(length, left));
      const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 };
      try {
        const header = parquetHeader(reader);
        this.at += reader.offset;
        return judged(header, left - reader.offset);
      } catch (error) {
        if (length >= left || length >= LONGEST_HEADER_BYTES) throw error;
      }
    }
  }

  /** Returns the next `length` bytes of the chunk without consuming them. */
  private async bytes(length: number): Promise<Uint8Array> {
    const { chunk, read, windowBytes } = this.source;
    if (this.at + length > this.windowAt + this.window.byteLength) {
      const to = Math.min(chunk.to, this.at + Math.max(length, windowBytes));
      this.window = await read(this.at, to);
      this.windowAt = this.at;
    }
    const from = this.at - this.windowAt;
    return this.window.subarray(from, from + length);
  }
}

function judged(header: PageHeader, left: number): PageHeader {
  const { compressed_page_size: packed, uncompressed_page_size: unpacked } = header;
  if (!Number.isInteger(packed) || packed < 0 || packed > left)
    throw new Error(`a page claims ${packed} bytes, but only ${left} are left`);
  if (!Number.isInteger(unpacked) || unpacked < 0) throw new Error(`a page claims to decompress to ${unpacked} bytes`);
  return header;
}
