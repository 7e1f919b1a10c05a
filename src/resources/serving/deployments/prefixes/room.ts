/**
 * Room on the disk for the blocks of one process. It asks before it writes, and reports what it has written. Room that was
 * granted counts as used until the process has ended, for its own limit and for those of others.
 */
import type { Ctx } from "../../../../context.ts";
import { errorText } from "../../../../lib/error_text.ts";
import { AppError } from "../../../../lib/errors.ts";
import { quotaOf } from "../../../../platform/config/quotas.ts";
import { counter } from "../../../../platform/metrics.ts";
import type { OpenMeter } from "../../../../platform/storage/meter.ts";
import type { PrefixCounts } from "../../../../workers/protocol.ts";
import { meterOf } from "../../../data/storage_usage/service.ts";
import { evict } from "./blocks.ts";
import { addBytes, allStores, find } from "./store.ts";

const read = counter("verk_prefix_tokens_read_total", "Tokens of prompts that were read from blocks on the disk", []);
const blocks = counter("verk_prefix_blocks_total", "Blocks of prompts on the disk, by what happened", ["event"]);
const moved = counter("verk_prefix_bytes_total", "Bytes of blocks that were written to the disk or read", ["event"]);
const saved = counter("verk_prefix_saved_seconds_total", "Time by which blocks made prompts faster", []);

const SLACK = 0.1; // of the limit: what is freed at once, so that the folder is not looked through for each block

/** Bytes that the blocks of a workspace may have together. */
export function limitOf({ config }: Pick<Ctx, "config">, workspaceId: string): number {
  const { prefix_cache_bytes: all } = config.serving;
  const { most } = quotaOf(config, workspaceId, "prefix_bytes");
  return most === 0 ? all : Math.min(most, all);
}

export class PrefixRoom implements Disposable {
  readonly workspaceId: string;
  readonly #ctx: Ctx;
  /** Called once for each kind of trouble, until blocks are written again. */
  readonly #warn: (text: string) => void;
  /** Tokens that the process has read from blocks. */
  readTokens = 0;
  #granted = 0;
  #meter: OpenMeter | undefined;
  #warned = new Set<string>();
  #isOver = false;

  constructor(ctx: Ctx, workspaceId: string, warn: (text: string) => void) {
    this.#ctx = ctx;
    this.workspaceId = workspaceId;
    this.#warn = warn;
    ctx.state.deployments.prefixRooms.add(this);
  }

  get granted() {
    return this.#granted;
  }

  /** Returns how many bytes may be written; 0: none for now. */
  async grant(bytes: number): Promise<number> {
    const { deployments } = this.#ctx.state;
    const turn = deployments.prefixTurn.then(() => this.#grant(bytes)).catch((error) => this.#refuse(error));
    deployments.prefixTurn = turn.then(() => {});
    return await turn;
  }

  async #grant(bytes: number): Promise<number> {
    if (this.#isOver || !find(this.#ctx, this.workspaceId)) return 0;
    for (const { lacks, limit, of } of this.#limits(bytes))
      if (lacks > 0) await evict(this.#ctx, of, Math.max(lacks, Math.floor(limit * SLACK)));
    const least = Math.min(...this.#limits(bytes).map(({ free }) => free));
    const granted = Math.max(0, Math.min(bytes, least));
    if (granted === 0)
      throw new AppError("quota_exceeded", "the quota for prompts on the disk is smaller than a block");
    this.#hold(this.#granted + granted);
    return granted;
  }

  /** The limit of the workspace, then that of all. */
  #limits(bytes: number) {
    const { config, state } = this.#ctx;
    const stores = allStores(this.#ctx);
    const limitOf = (limit: number, isOf: (workspaceId: string) => boolean) => {
      const own = stores.filter(({ workspaceId }) => isOf(workspaceId));
      const rooms = [...state.deployments.prefixRooms].filter(({ workspaceId }) => isOf(workspaceId));
      const used =
        own.reduce((sum, store) => sum + store.bytes, 0) + rooms.reduce((sum, room) => sum + room.granted, 0);
      return { limit, free: limit - used, lacks: used + bytes - limit, of: own.map(({ workspaceId }) => workspaceId) };
    };
    const all = limitOf(config.serving.prefix_cache_bytes, () => true);
    const { most } = quotaOf(config, this.workspaceId, "prefix_bytes");
    return most === 0 ? [all] : [limitOf(most, (id) => id === this.workspaceId), all];
  }

  /** The process has written or read blocks. `problem`: why the disk takes or gives none. */
  record(counts: PrefixCounts, problem: string | null) {
    const { db } = this.#ctx;
    const { workspaceId } = this;
    const add = (event: string, number: number, bytes: number) => {
      if (number === 0) return;
      blocks.add(db, workspaceId, [event], number);
      if (bytes > 0) moved.add(db, workspaceId, [event], bytes);
    };
    add("stored", counts.stored_blocks, counts.stored_bytes);
    add("read", counts.read_blocks, counts.read_bytes);
    add("bad", counts.bad_blocks, 0);
    this.readTokens += counts.read_tokens;
    if (counts.read_tokens > 0) {
      read.add(db, workspaceId, [], counts.read_tokens);
      saved.add(db, workspaceId, [], counts.saved_ms / 1000);
    }
    if (counts.stored_bytes > 0) {
      addBytes(this.#ctx, workspaceId, counts.stored_bytes);
      this.#hold(Math.max(0, this.#granted - counts.stored_bytes));
      this.#warned.clear();
    }
    if (problem !== null) this.#warnOnce(problem);
  }

  [Symbol.dispose]() {
    this.#isOver = true;
    this.#granted = 0;
    this.#meter?.[Symbol.dispose]();
    this.#ctx.state.deployments.prefixRooms.delete(this);
  }

  /** Counts so many bytes as on their way to the disk, against the quota of the workspace and the free space. */
  #hold(bytes: number) {
    this.#meter?.[Symbol.dispose]();
    this.#meter = undefined;
    this.#granted = 0;
    if (bytes === 0 || this.#isOver) return;
    const meter = meterOf(this.#ctx, { workspaceId: this.workspaceId, kind: "prefixes" });
    this.#meter = meter;
    meter.take(bytes);
    this.#granted = bytes;
  }

  #refuse(error: unknown): number {
    this.#warnOnce(errorText(error));
    return 0;
  }

  #warnOnce(text: string) {
    if (this.#warned.has(text)) return;
    this.#warned.add(text);
    this.#warn(`Prompts are not kept on the disk for now: ${text}`);
  }
}
