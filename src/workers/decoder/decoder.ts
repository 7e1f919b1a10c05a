/**
 * Decoding of many sequences by our own kernels. A step is one graph for all rows; prompts are read between steps, some
 * tokens at a time. Tokens, positions and random numbers stay on the device, so a step can be queued before the last one
 * is read.
 */
import {
  type Device,
  DRAWING_WORDS,
  EXACT_LINES,
  keptBytes,
  PAGE,
  PROMPT_LINES,
  type Read,
} from "../../native/cuda/decode/kernels.ts";
import { OutOfMemory } from "../../native/ggml/out_of_memory.ts";
import type { AdapterSource } from "./adapters/plan.ts";
import { AdapterStore } from "./adapters/store.ts";
import { type Room, tokensOf } from "./admission.ts";
import { Board } from "./board.ts";
import { drawingWords, MASKED_WORD } from "./drawing.ts";
import { GuessSlots } from "./guessing/guess_slots.ts";
import { canGuess, countDrawn, GuessedText, MOST_DECODED } from "./guessing/text.ts";
import type { DecoderModel } from "./model.ts";
import { withOwnMemory } from "./own_memory.ts";
import { PageBlocks } from "./page_blocks.ts";
import { type Lease, PageTable } from "./pages.ts";
import { openBuffers, Passes } from "./passes.ts";
import { Pausing } from "./pausing.ts";
import { bucketOf, chunksOf, wideFor } from "./plan.ts";
import { openPromptReader } from "./prompts.ts";
import type { Sequence } from "./sequence.ts";
import { openSlotMemory } from "./slot_memory.ts";
import { StepGraphs, type StepRows } from "./steps/graphs.ts";
import { type Row, readResults } from "./steps/results.ts";
import type { AdapterLoad, Admission, Decoder, DecoderOptions, DrawnToken } from "./types.ts";

/** A step whose results are on their way. `guesses`: the rows are one sequence, each behind the one before. */
type Queued = { rows: readonly Row[]; results: Read; alternatives: Read | null; guesses?: Int32Array };

const NO_GUESSES = new Int32Array(0);
const PROMPT_TOKENS = 512;
const LATE = 2048; // cublasLt takes some 0.2 s to open, which shorter prompts do not have
const CHUNK_ROWS = 16_384; // rows times spans of one pass over prompts

export function openDecoder(device: Device, model: DecoderModel, options: DecoderOptions): Decoder {
  return withOwnMemory(device, (memory) => new GraphDecoder(memory, model, options));
}

class GraphDecoder implements Decoder {
  readonly bytes: number;
  readonly #device: Device;
  readonly #options: DecoderOptions;
  readonly #board: Board;
  readonly #pages: PageTable;
  readonly #passes: Passes;
  readonly #memory: ReturnType<typeof openSlotMemory>;
  readonly #prompts: ReturnType<typeof openPromptReader>;
  readonly #graphs: StepGraphs;
  readonly #free: number[];
  readonly #sequences = new Map<number, Sequence>();
  readonly #queue: Queued[] = [];
  readonly #close: (() => void)[] = [];
  readonly #rows: Sequence[] = []; // row i decodes #rows[i]
  readonly #room: Room;
  readonly #guessSlots: GuessSlots | null;
  readonly #adapters: AdapterStore | null;
  readonly #blocks: PageBlocks | null;
  readonly #pausing: Pausing;
  readonly #early: DrawnToken[] = []; // of steps that a pause had to wait for
  #isPrepared = false;
  #ids = 0;
  #steps = 0;
  #drawn = 0;

  constructor(device: Device, model: DecoderModel, options: DecoderOptions) {
    const { slots, contextLength, pages, promptTokens = PROMPT_TOKENS } = options;
    const { wide = wideFor(model.matrices.values()) } = options.exact ? { wide: null } : options;
    const { layers, keyHeads, vocab } = model.architecture;
    const pagesPerSlot = Math.ceil(contextLength / PAGE);
    const guessed = options.guesses && !options.exact ? MOST_DECODED : 0;
    const rows = bucketOf(Math.max(slots, 1 + guessed));
    const chunkRows = Math.max(rows * chunksOf(contextLength), CHUNK_ROWS);
    const type = options.kvType ?? "f16";
    const pageBytes = 2 * keyHeads * keptBytes(type, model.keptLength);
    const layerBytes = pages * pageBytes;
    this.#device = device;
    this.#options = options;
    this.#room = { contextLength, pages, vocab };
    this.#pages = new PageTable(pages);
    this.#free = Array.from({ length: slots }, (_, i) => slots - 1 - i);
    const open = <T extends { free: () => void }>(part: T): T => {
      this.#close.push(part.free.bind(part));
      return part;
    };
    try {
      this.#board = open(new Board(device, { rows, slots: slots + guessed, pagesPerSlot }));
      this.#guessSlots = guessed > 0 ? new GuessSlots(this.#board, slots) : null;
      const buffers = open(
        openBuffers(device, model, { rows: Math.max(rows, promptTokens), headRows: rows, chunkRows }),
      );
      const size = { slots: slots + guessed, rows, vocab, vocabStride: buffers.vocabStride, contextLength };
      this.#memory = open(openSlotMemory(device, size));
      const pool = device.allocate(layers * layerBytes);
      this.#close.push(() => device.free(pool));
      const table = this.#board.address(this.#board.layout.tables);
      this.#adapters = options.adapters
        ? open(new AdapterStore(device, model, { ...options.adapters, rows: buffers.rows }))
        : null;
      const adapters = this.#adapters?.table ?? null;
      const pagesAt = { pool, layerBytes, table, tableStride: pagesPerSlot, type };
      const begins = options.exact ? this.#board.address(this.#board.layout.slotBegins) : null;
      this.#passes = new Passes(device, model, buffers, { pages: pagesAt, wide, begins, adapters });
      const reading = wide?.prompts ? wide : null;
      const promptPasses = new Passes(device, model, buffers, { pages: pagesAt, wide: reading, begins, adapters });
      const { lateFrom = LATE } = options;
      const isPlain = reading === null && begins === null && lateFrom < contextLength;
      const inOnePiece = { pages: pagesAt, wide: null, begins, adapters, inOnePiece: true };
      const late = isPlain ? { from: lateFrom, passes: new Passes(device, model, buffers, inOnePiece) } : null;
      this.#graphs = open(new StepGraphs(device, { board: this.#board, passes: this.#passes, memory: this.#memory }));
      const poolAt = { pool, layers, layerBytes, pageBytes };
      this.#pausing = new Pausing({
        device,
        board: this.#board,
        memory: this.#memory,
        pages: this.#pages,
        pool: poolAt,
      });
      this.#blocks = options.blocks ? open(new PageBlocks(device, poolAt, this.#pages, options.blocks)) : null;
      this.#prompts = open(
        openPromptReader(device, promptPasses, {
          rows: promptTokens,
          spanRows: chunkRows,
          headsPerKey: model.architecture.heads / keyHeads,
          lines: options.exact ? EXACT_LINES : PROMPT_LINES,
          blocks: this.#blocks,
          late,
          copies: { pool, pageNumbers: pageBytes / 2, layers, pages, most: slots },
        }),
      );
      this.bytes = buffers.bytes() + this.#memory.bytes + layers * layerBytes + (this.#adapters?.bytes ?? 0);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  admit(admission: Admission): number | null {
    const { prompt, maxTokens, drawing } = admission;
    const total = tokensOf(admission, this.#room);
    if (this.#free.length === 0) return null;
    const beginning = prompt.subarray(0, -1);
    const adapter = this.#adapters?.placeOf(admission.adapter) ?? -1;
    const how = { isFresh: admission.fresh ?? false, owner: admission.adapter ?? 0 };
    const lease = this.#withRoom(() => this.#pages.admit(beginning, total, how));
    if (!lease) return null;
    const slot = this.#free.pop()!;
    const state = { position: beginning.length, left: maxTokens, over: false, maskedOnce: false, paused: null };
    const text = this.#guessSlots && canGuess(admission) ? new GuessedText(prompt, maxTokens, drawing.seed) : null;
    const sequence = { id: ++this.#ids, slot, lease, admission, adapter, text, ...state };
    this.#sequences.set(sequence.id, sequence);
    const { layout } = this.#board;
    this.#setTable(sequence);
    this.#board.set(layout.slotTokens + slot, prompt.at(-1)!);
    this.#board.set(layout.slotPositions + slot, beginning.length);
    this.#board.setDrawing(slot, drawingWords(drawing));
    this.#memory.putBiases(slot, drawing.logitBias);
    this.#prompts.add(sequence, beginning);
    return sequence.id;
  }

  mask(id: number, bits: Uint32Array) {
    const sequence = this.#sequences.get(id);
    if (sequence) this.#memory.putMask(sequence.slot, bits);
  }

  redraw(id: number, before: number, bits: Uint32Array) {
    const sequence = this.#sequences.get(id);
    if (!sequence) return;
    if (!sequence.admission.checked) throw new Error("Only the tokens of a checked sequence can be drawn again");
    const { layout } = this.#board;
    const { slot } = sequence;
    this.#memory.putMask(slot, bits);
    sequence.text?.takeBack();
    this.#board.set(layout.slotTokens + slot, before);
    this.#board.set(layout.slotPositions + slot, --sequence.position);
    this.#setMasked(sequence, true);
    if (sequence.left++ === 0) this.#rows.push(sequence);
  }

  step(promptTokens = Number.POSITIVE_INFINITY): readonly DrawnToken[] {
    this.#read(promptTokens);
    const waits = this.#rows.some(({ admission }) => admission.checked || admission.drawing.masked);
    const depth = this.#options.ahead && !waits ? 2 : 1;
    const guesses = this.#guesses();
    if (guesses.length === 0) while (this.#queue.length < depth && this.#rows.length > 0) this.#launch();
    else if (this.#queue.length === 0) this.#launchGuesses(this.#rows[0]!, guesses);
    const early = this.#early.splice(0).filter(({ sequence }) => this.#sequences.has(sequence));
    const done = this.#queue.shift();
    if (done) return [...early, ...this.#collect(done)];
    if (early.length > 0) return early;
    this.#device.wait(); // passes over prompts must not pile up: a sequence that comes later would wait for all of them
    return [];
  }

  pause(id: number): boolean {
    const sequence = this.#sequences.get(id);
    if (!sequence || !this.#rows.includes(sequence)) return false;
    for (const queued of this.#queue.splice(0)) this.#early.push(...this.#collect(queued));
    if (sequence.left === 0) return false;
    this.#leaveRow(sequence);
    this.#graphs.sendBoard();
    sequence.paused = { slot: this.#pausing.save(sequence.slot), pages: null };
    this.#pages.lend(sequence.lease);
    this.#free.push(sequence.slot);
    return true;
  }

  resume(id: number): boolean {
    const sequence = this.#sequences.get(id);
    if (!sequence?.paused) throw new Error("Only a paused sequence can go on");
    if (this.#free.length === 0) return false;
    const total = tokensOf(sequence.admission, this.#room);
    const lease = this.#withRoom(() => this.#pausing.takeBack(sequence, total), sequence);
    if (!lease) return false;
    sequence.lease = lease;
    sequence.slot = this.#free.pop()!;
    this.#pausing.restore(sequence.slot, sequence.paused.slot);
    sequence.paused = null;
    this.#setTable(sequence);
    this.#rows.push(sequence);
    return true;
  }

  release(id: number) {
    const sequence = this.#sequences.get(id);
    if (!sequence) return;
    this.#sequences.delete(id);
    sequence.over = true;
    if (sequence.paused) {
      this.#pausing.forget(sequence.paused);
      return this.#pages.release(sequence.lease);
    }
    const filled = this.#prompts.remove(sequence);
    this.#leaveRow(sequence);
    this.#pages.release(sequence.lease, filled);
    this.#free.push(sequence.slot);
  }

  attach(sources: readonly AdapterSource[]): AdapterLoad | string {
    return this.#adapters?.attach(sources) ?? "has no room here";
  }

  detach(adapter: number) {
    this.#adapters?.detach(adapter);
  }

  keep(mayWait = true) {
    return this.#blocks?.keep(mayWait) ?? false;
  }

  prepare() {
    if (this.#sequences.size > 0 || this.#isPrepared) return false;
    try {
      this.#prompts.prepare();
      for (let keys = 1; keys <= this.#room.contextLength; keys *= 2) if (this.#graphs.prepare(keys)) return true;
    } catch (error) {
      if (!(error instanceof OutOfMemory)) throw error; // a request that needs it says so
    }
    this.#isPrepared = true;
    return false;
  }

  clear() {
    this.#blocks?.forget();
    if (this.#sequences.size > 0) throw new Error("Shared beginnings cannot be forgotten while sequences run");
    this.#pages.clear();
  }

  stats() {
    const { promptTokens, cachedTokens, waiting } = this.#prompts.stats();
    return {
      active: this.#rows.length,
      reading: waiting,
      promptTokens,
      cachedTokens,
      availablePages: this.#pages.available,
      pages: this.#pages.count,
      completionTokens: this.#drawn,
      steps: this.#steps,
    };
  }

  close() {
    this.#device.wait();
    for (const free of this.#close.splice(0).reverse()) free();
  }

  /** Reads some tokens of prompts. Sequences whose prompt is complete get a row. */
  #read(most: number) {
    if (this.#prompts.stats().waiting === 0) return;
    this.#graphs.sendBoard(); // page tables of new sequences
    const comes = this.#rows.length === 0 ? this.#prompts.comes() : null;
    if (comes && comes.adapter < 0) this.#graphs.prepare(comes.position + 1); // while its blocks come
    const ready = this.#prompts.read(most, this.#rows.length === 0);
    this.#rows.push(...ready);
    for (const { admission, lease } of ready) this.#blocks?.add(admission.blocks ?? [], lease.table);
  }

  /** Tries again when blocks and then paused sequences have given their pages away. */
  #withRoom(take: () => Lease | null, own?: Sequence): Lease | null {
    const lease = take();
    if (lease) return lease;
    this.#blocks?.forget();
    let more = take();
    for (const other of this.#sequences.values()) {
      if (more) break;
      if (!other.paused || other.paused.pages || other === own) continue;
      this.#pausing.giveAway(other, this.#rows.length === 0);
      more = take();
    }
    return more;
  }

  #setTable({ lease, slot, admission }: Sequence) {
    lease.table.forEach((page, i) => {
      this.#board.setPage(slot, i, page);
    });
    if (this.#options.exact) this.#board.set(this.#board.layout.slotBegins + slot, admission.prompt.length - 1);
  }

  #setMasked(sequence: Sequence, masked: boolean) {
    sequence.maskedOnce = masked;
    const place = this.#board.layout.drawings + sequence.slot * DRAWING_WORDS + MASKED_WORD;
    this.#board.set(place, masked ? 1 : 0);
  }

  /** Returns what may follow the newest token of a lone sequence. While a step is under way, that is one place too early. */
  #guesses(): Int32Array {
    const [alone, ...others] = this.#rows;
    if (!alone?.text || others.length > 0 || this.#prompts.stats().waiting > 0) return NO_GUESSES;
    if (alone.maskedOnce) return NO_GUESSES;
    const most = Math.min(alone.left - 1, MOST_DECODED);
    const fromText = alone.text.guess(most);
    return alone.admission.propose?.(fromText, most) ?? fromText;
  }

  #launchGuesses(sequence: Sequence, guesses: Int32Array) {
    const { position, left } = sequence;
    for (let i = 0; i <= guesses.length; i++) this.#grow(sequence, position + i);
    const slots = this.#guessSlots!.put(sequence, guesses);
    const rows = slots.map((_, i) => ({ sequence, last: left === i + 1 }));
    const adapters = slots.map(() => sequence.adapter);
    this.#run({ slots, adapters }, position + slots.length, { rows, guesses });
  }

  #launch() {
    let keys = 1;
    for (const sequence of this.#rows) {
      this.#grow(sequence, sequence.position);
      keys = Math.max(keys, sequence.position + 1);
    }
    const slots = this.#rows.map(({ slot }) => slot);
    const adapters = this.#rows.map(({ adapter }) => adapter);
    const rows = this.#rows.map((sequence) => ({ sequence, last: sequence.left === 1 }));
    this.#run({ slots, adapters }, keys, { rows });
    for (const { sequence, last } of rows) {
      if (sequence.maskedOnce) this.#setMasked(sequence, false); // before the next step, not before this one
      sequence.position++;
      sequence.left--;
      if (last) this.#leaveRow(sequence);
    }
  }

  #run(of: StepRows, keys: number, queued: Pick<Queued, "rows" | "guesses">) {
    const wantsOthers = this.#rows.some(({ admission }) => (admission.drawing.topLogprobs ?? 0) > 0);
    const head = this.#adapters?.changesHead ?? false;
    this.#queue.push({ ...queued, ...this.#graphs.run(of, { keys, wantsOthers, head }) });
    this.#steps++;
  }

  #grow({ lease, slot }: Sequence, position: number) {
    const index = this.#pages.grow(lease, position);
    if (index >= 0) this.#board.setPage(slot, index, lease.table[index]!);
  }

  /** The last row takes the place of the one that leaves. */
  #leaveRow(sequence: Sequence) {
    const row = this.#rows.indexOf(sequence);
    if (row < 0) return;
    const last = this.#rows.pop()!;
    if (last !== sequence) this.#rows[row] = last;
  }

  #collect({ rows, results, alternatives, guesses }: Queued): DrawnToken[] {
    const { tokenOf, drawn } = readResults(results.wait(), alternatives?.wait() ?? null);
    const counted = guesses ? rows.slice(0, countDrawn(guesses, tokenOf)) : rows;
    const tokens = counted.flatMap((row, i) => {
      if (row.sequence.over) return [];
      this.#drawn++;
      row.sequence.text?.add(tokenOf(i));
      return [drawn(row, i)];
    });
    if (guesses) this.#goOn(counted, tokenOf(counted.length - 1));
    for (const { sequence } of counted) sequence.text?.endStep();
    return tokens;
  }

  /** After guesses, the host knows first where the sequence stands. */
  #goOn(counted: readonly Row[], newest: number) {
    const { sequence, last } = counted.at(-1)!;
    sequence.position += counted.length;
    sequence.left -= counted.length;
    if (counted.length > 1) this.#guessSlots!.accept(sequence, newest); // also if the last one may be drawn again
    if (last) this.#leaveRow(sequence);
  }
}
