/**
 * The folder with the blocks of one workspace, as a replica uses it. It blocks the decoding thread, as decoding does: a
 * block is read faster than its tokens. The server counts and removes blocks; this side writes only into the room that
 * the server granted. A fault of the disk costs blocks, never an answer.
 */
import { existsSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { errorText } from "../../../../lib/error_text.ts";
import { MIB, MINUTE_MS } from "../../../../lib/units.ts";
import { openShim, type Shim } from "../../../../native/shim/shim.ts";
import { errorCode } from "../../../../platform/files.ts";
import type { BlockLanes, HostPlace } from "../../../decoder/types.ts";
import type { PrefixCounts } from "../../../protocol.ts";
import { BLOCK, BlockFiles, type BlockKeys, keysOf, namesOf, rootOf, SEAL_BYTES } from "./block.ts";
import { openLanes } from "./lanes.ts";

/** `identity`: of the model file and everything else that the numbers depend on, without the adapter. */
export type PrefixOptions = { dir: string; key: string; identity: string };
/** `threads`: that read and write blocks beside the decoding thread, where a device copies by itself. */
type Further = { dataDir?: string; threads?: number; now?: () => number };

const NOTHING: PrefixCounts = {
  stored_blocks: 0,
  stored_bytes: 0,
  read_blocks: 0,
  read_bytes: 0,
  read_tokens: 0,
  read_ms: 0,
  saved_ms: 0,
  bad_blocks: 0,
};

const BLOCKS_AHEAD = 4;
const BLOCKS_ASKED = 32;
const MOST_ASKED = 64 * MIB;
const FIRST_ASKED = 4 * MIB;
const PAUSE_MS = MINUTE_MS;

export class PrefixFolder {
  readonly tokens = BLOCK;
  readonly threads: number;
  /** The measured speed of reading prompts; 0: not measured. */
  promptMsPerToken: () => number = () => 0;
  readonly #dir: string;
  readonly #keys: BlockKeys;
  readonly #shim: Shim;
  readonly #files: BlockFiles;
  readonly #identity: string;
  readonly #ask: (bytes: number) => void;
  readonly #now: () => number;
  #room = 0;
  #isAsking = false;
  #closedUntil = Number.NEGATIVE_INFINITY;
  #counts = { ...NOTHING };
  #problem: string | null = null;

  constructor({ dir, key, identity }: PrefixOptions, ask: (bytes: number) => void, further: Further = {}) {
    const { dataDir = dir, threads = 0, now = () => performance.now() } = further;
    this.threads = threads;
    this.#dir = dir;
    this.#keys = keysOf(Buffer.from(key, "hex"));
    this.#shim = openShim(dataDir);
    this.#files = new BlockFiles(this.#shim, dir, this.#keys);
    this.#identity = identity;
    this.#ask = ask;
    this.#now = now;
    this.#want(FIRST_ASKED); // blocks may have to be written in a hurry
  }

  /** `by`: what computes the numbers, and the identity of the adapter. */
  names(by: { decoder: string; adapter: string }, tokens: Int32Array, count: number): string[] {
    const root = rootOf(this.#keys, JSON.stringify([this.#identity, by.decoder, by.adapter]));
    return namesOf(this.#keys, root, tokens, count);
  }

  has(name: string): boolean {
    return existsSync(join(this.#dir, name));
  }

  /** How many blocks of this list are there, from its beginning. */
  count(names: readonly string[]): number {
    const missing = names.findIndex((name) => !this.has(name));
    return missing < 0 ? names.length : missing;
  }

  /** Null: there is no such block, or it is not whole. A bad one is removed. The time of its file says when it was used. */
  read(name: string): Uint8Array | null {
    let content: Uint8Array | null;
    try {
      content = this.#files.read(name);
    } catch (error) {
      if (errorCode(error) !== "ENOENT") this.#fail(error);
      return null;
    }
    if (content) this.brought(content.length);
    else {
      this.#counts.bad_blocks++;
      this.drop(name);
    }
    return content;
  }

  /** For a block whose content is of no use. */
  drop(name: string) {
    try {
      unlinkSync(join(this.#dir, name));
    } catch {
      // the server has removed it, or will
    }
  }

  /** False: there is no room now. It comes with `grant`. */
  hasRoom(bytes: number): boolean {
    const needed = bytes + SEAL_BYTES;
    if (this.#room < needed * BLOCKS_AHEAD) this.#want(Math.max(needed, Math.min(needed * BLOCKS_ASKED, MOST_ASKED)));
    return this.#room >= needed;
  }

  #want(bytes: number) {
    if (this.#isAsking || this.isClosed) return;
    this.#isAsking = true;
    this.#ask(bytes);
  }

  /** 0: the server has no room for now. */
  grant(bytes: number) {
    this.#isAsking = false;
    this.#room += bytes;
    if (bytes === 0) this.#closedUntil = this.#now() + PAUSE_MS;
  }

  /** Call `hasRoom` before. Returns false if the block is not on the disk. */
  write(name: string, content: Uint8Array): boolean {
    if (this.has(name)) return true;
    try {
      this.#files.write(name, content);
    } catch (error) {
      this.#fail(error);
      this.#closedUntil = this.#now() + PAUSE_MS;
      return false;
    }
    this.#reserve(content.length + SEAL_BYTES);
    this.wrote(content.length);
    return true;
  }

  lanes(memory: readonly HostPlace[]): BlockLanes | null {
    if (this.threads === 0) return null;
    const [shim, dir, keys] = [this.#shim, this.#dir, this.#keys];
    const lanes = openLanes({ shim, threads: this.threads, dir, keys, memory });
    if (!lanes) return null;
    const writing = new Map<number, number>();
    const write: BlockLanes["write"] = (place, name, bytes) => {
      this.#reserve(bytes + SEAL_BYTES);
      writing.set(place, bytes + SEAL_BYTES);
      lanes.write(place, name, bytes);
    };
    const result: BlockLanes["result"] = (place, until) => {
      const length = lanes.result(place, until);
      if (length === null) this.#reserve(-(writing.get(place) ?? 0));
      if (length !== undefined) writing.delete(place);
      return length;
    };
    return { ...lanes, write, result };
  }

  #reserve(bytes: number) {
    this.#room -= bytes;
  }

  wrote(bytes: number) {
    this.#counts.stored_blocks++;
    this.#counts.stored_bytes += bytes + SEAL_BYTES;
    this.#problem = null;
  }

  brought(bytes: number) {
    this.#counts.read_blocks++;
    this.#counts.read_bytes += bytes + SEAL_BYTES;
  }

  /** True while writes make no sense. */
  get isClosed(): boolean {
    return this.#now() < this.#closedUntil;
  }

  restored(tokens: number, readMs: number) {
    this.#counts.read_tokens += tokens;
    this.#counts.read_ms += readMs;
    this.#counts.saved_ms += Math.max(0, tokens * this.promptMsPerToken() - readMs);
  }

  /** Null: nothing has happened. `problem`: the reason why blocks cannot be used. */
  takeCounts(): { counts: PrefixCounts; problem: string | null } | null {
    if (this.#problem === null && Object.values(this.#counts).every((value) => value === 0)) return null;
    const taken = { counts: this.#counts, problem: this.#problem };
    this.#counts = { ...NOTHING };
    this.#problem = null;
    return taken;
  }

  #fail(error: unknown) {
    this.#problem = errorText(error);
  }
}
