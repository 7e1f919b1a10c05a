/**
 * Reads prompts into pages, some tokens of all waiting ones in a pass. The last token of a prompt is not read here: the
 * sequence's first step decodes it.
 */
import { type Device, PAGE, TILE_WORDS } from "../../native/cuda/decode/kernels.ts";
import type { AdaptersAt } from "./adapters/added.ts";
import { adapterTiles } from "./adapters/plan.ts";
import type { PageBlocks } from "./page_blocks.ts";
import type { Lease } from "./pages.ts";
import type { Passes } from "./passes.ts";
import { attentionTiles, spansOf } from "./plan.ts";
import type { Sequence } from "./sequence.ts";

/** `after`: older prompts that fill pages which this one shares or copies. */
type Waiting = {
  sequence: Sequence;
  tokens: Int32Array;
  done: number;
  copies: Lease["copies"];
  after: readonly Waiting[];
  /** Names of the blocks that may be brought instead of read. */
  blocks: readonly string[];
  /** The rank of its request, or of a more urgent one that waits for it. */
  rank: number;
};
type Row = { slot: number; token: number; position: number; adapter: number };

const SHORT = 256; // tokens
const BRING_MS = 10; // running sequences wait for so long while blocks come
const isRead = ({ done, tokens }: Waiting) => done === tokens.length;
const pagesOf = ({ table, copies }: Lease) => [...table, ...copies.map(([from]) => from)];

export type PromptOptions = {
  /** Tokens of one pass, and the product of tokens and spans that buffers hold. */
  rows: number;
  spanRows: number;
  headsPerKey: number;
  /** Lines of a tile of attention. */
  lines: number;
  blocks: PageBlocks | null;
  /**
   * Reads tokens from position `from` on. Which passes read a token depends on its position alone, so it has the same bits
   * however its prompt is read.
   */
  late: { from: number; passes: Passes } | null;
  copies: { pool: number; pageNumbers: number; layers: number; pages: number; most: number };
};

export function openPromptReader(device: Device, passes: Passes, options: PromptOptions) {
  const { rows: most, spanRows, headsPerKey, lines, blocks, copies, late } = options;
  const inputs = device.allocate(3 * most * 4); // slots, tokens, positions
  const tilesAt = device.allocate(2 * most * 4);
  const adaptersAt = device.allocate((1 + TILE_WORDS) * most * 4); // of rows, then their tiles
  const copiesAt = device.allocate(2 * copies.most * 4);
  const all: Waiting[] = [];
  let [promptTokens, cachedTokens] = [0, 0];

  /**
   * Takes as many tokens as one pass holds and `wanted` allows. Short rests come first with half of them, so that a short
   * prompt does not wait for a long one; then the oldest prompts. More urgent ones come before others.
   */
  function next(wanted: number) {
    const limit = Math.min(most, wanted);
    const rows: Row[] = [];
    let keys = 1;
    const take = (one: Waiting, upTo: number) => {
      while (one.done < one.tokens.length && rows.length < upTo) {
        if (rows.length > 0 && isLate(rows[0]!.position) !== isLate(one.done)) return;
        keys = Math.max(keys, one.done + 1);
        if ((rows.length + 1) * spansOf(keys) > spanRows) return;
        const { slot, adapter } = one.sequence;
        rows.push({ slot, token: one.tokens[one.done]!, position: one.done, adapter });
        one.done++;
      }
    };
    const waiting = all.filter((one) => !isBringing(one)).sort((a, b) => a.rank - b.rank);
    const [first] = waiting;
    const isFirst = ({ rank }: Waiting) => rank === first?.rank;
    for (const one of waiting)
      if (isFirst(one) && one.tokens.length - one.done <= SHORT && one.after.every(isRead))
        take(one, Math.ceil(limit / 2));
    for (const one of waiting) if (one.after.every(isRead)) take(one, limit);
    return rows;
  }

  const isLate = (position: number) => late !== null && position >= late.from;
  const isBringing = ({ blocks: names, done }: Waiting) => blocks?.isNext(names, done) ?? false;

  function hurry(one: Waiting, rank: number) {
    if (one.rank <= rank) return;
    one.rank = rank;
    for (const older of one.after) hurry(older, rank);
  }

  /** Brings blocks of the oldest prompts. `mayWait`: nothing else runs meanwhile. */
  function bring(mayWait: boolean) {
    const until = performance.now() + BRING_MS;
    for (const one of all) {
      while (isBringing(one)) {
        if (performance.now() >= until) return;
        const done = blocks!.bring(one.blocks, one.sequence.lease.table, one.done, mayWait ? until : 0);
        if (done === null) return;
        if (done === one.done) one.blocks = [];
        one.done = done;
      }
    }
  }

  function pass(wanted: number, isAlone: boolean) {
    if (blocks) bring(isAlone && all.every(isBringing));
    const rows = next(wanted);
    if (rows.length === 0) return;
    const keys = rows.reduce((highest, { position }) => Math.max(highest, position + 1), 1);
    const slots = rows.map(({ slot }) => slot);
    const words = Int32Array.from([
      ...slots,
      ...rows.map(({ token }) => token),
      ...rows.map(({ position }) => position),
    ]);
    const tiles = attentionTiles(slots, headsPerKey, lines);
    device.put(inputs, words);
    device.put(tilesAt, tiles);
    const count = rows.length;
    const by = late && isLate(rows[0]!.position) ? late.passes : passes;
    by.fill({
      rows: { slots: inputs, tokens: inputs + count * 4, positions: inputs + 2 * count * 4, count },
      chunks: spansOf(keys),
      tiles: { at: tilesAt, count: tiles.length / 2 },
      adapters: putAdapters(rows.map(({ adapter }) => adapter)),
    });
    promptTokens += count;
  }

  function putAdapters(adapters: readonly number[]): AdaptersAt | undefined {
    if (!adapters.some((adapter) => adapter >= 0)) return undefined;
    const tiles = adapterTiles(adapters);
    device.put(adaptersAt, Int32Array.from([...adapters, ...tiles]));
    const at = { rows: adaptersAt, tiles: adaptersAt + adapters.length * 4 };
    return { ...at, tileCount: tiles.length / TILE_WORDS, head: false };
  }

  /** A page may be copied once the prompts that were admitted before are read: one of them fills it. */
  function copyPages(of: readonly Waiting[]) {
    const list = Int32Array.from(of.flatMap(({ copies }) => copies.flat()));
    if (list.length === 0) return;
    device.put(copiesAt, list);
    device.launch("copy_pages", { grid: [list.length / 2, copies.layers, 1], threads: 256 }, [
      ...[copies.pool, copiesAt, copies.pageNumbers, copies.pages],
    ]);
  }

  return {
    add(sequence: Sequence, tokens: Int32Array) {
      const { cached, copies } = sequence.lease;
      const { blocks: names = [], fresh, rank = 0 } = sequence.admission;
      const own = fresh || copies.length > 0 || cached % PAGE !== 0 ? [] : names;
      const coming = blocks?.ahead(own, cached) ?? 0;
      cachedTokens += cached + coming;
      if (coming > 0 && isLate(tokens.length - 1)) device.exact(); // it opens while the blocks come
      const shares = cached > 0 ? new Set(pagesOf(sequence.lease)) : new Set<number>();
      const after = all.filter((one) => !isRead(one) && one.sequence.lease.table.some((page) => shares.has(page)));
      for (const one of after) hurry(one, rank);
      all.push({ sequence, tokens, done: cached, copies, after, blocks: own, rank });
    },
    /**
     * Returns how many tokens of the sequence are in its pages. Prompts that share pages with one that is not read to
     * its end read them on.
     */
    remove(sequence: Sequence): number {
      const at = all.findIndex((one) => one.sequence === sequence);
      if (at < 0) return sequence.position;
      const [left] = all.splice(at, 1) as [Waiting];
      const filled = left.done;
      if (filled === left.tokens.length) return filled;
      const pages = new Set(sequence.lease.table.slice(Math.floor(filled / PAGE)));
      for (const other of all.slice(at)) {
        if (!pagesOf(other.sequence.lease).some((page) => pages.has(page))) continue;
        other.after = other.after.filter((one) => one !== left);
        other.done = Math.min(other.done, filled);
        other.copies = [];
      }
      return filled;
    },
    /**
     * One pass of up to `wanted` tokens. Returns the sequences whose prompt is complete, in the order of their admission.
     * `isAlone`: no sequence decodes.
     */
    read(wanted: number, isAlone: boolean): Sequence[] {
      pass(wanted, isAlone);
      const ready = all.filter((one) => isRead(one) && one.after.every(isRead));
      for (const one of ready) all.splice(all.indexOf(one), 1);
      copyPages(ready);
      return ready.map(({ sequence }) => sequence);
    },
    /** Opens what late tokens need, if it is not open yet. */
    prepare() {
      if (late) device.exact();
    },
    /** A lone sequence whose blocks are on their way. */
    comes: () => (all.length === 1 && isBringing(all[0]!) ? all[0]!.sequence : null),
    stats: () => ({ waiting: all.length, promptTokens, cachedTokens }),
    free() {
      device.free(inputs);
      device.free(tilesAt);
      device.free(adaptersAt);
      device.free(copiesAt);
    },
  };
}
