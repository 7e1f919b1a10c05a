/** Runs a data resolver: code that makes zero, one or more rows of each row of a dataset. */
import { LOAD_MS, MAP_ROWS, type Mapped, type RewardCode } from "../../lib/rewards/contract.ts";
import type { Row } from "../../lib/rows/format.ts";
import type { RewardEnd, RewardPool } from "./types.ts";

/** The code failed. The message names the row and the line of the code. */
export class ResolverError extends Error {}

export type ResolverCode = Pick<RewardCode, "language" | "source" | "seed">;
export type Resolver = {
  /** Returns the rows that the code makes of each row. `firstRow` counts from 1, for the message of an error. */
  map: (rows: readonly Row[], firstRow: number) => Promise<Row[][]>;
  close: () => Promise<void>;
};

type Limits = { rowMs: number; signal: AbortSignal };

/** `signal` ends the process. Throws ResolverError if the code cannot be loaded. */
export async function openResolver(pool: RewardPool, code: ResolverCode, limits: Limits): Promise<Resolver> {
  const { rowMs, signal } = limits;
  const { process, close } = await start(pool, code, signal);
  return {
    close,
    async map(rows, firstRow) {
      const { results, end } = await process.map(rows, rowMs);
      signal.throwIfAborted();
      const mapped = results.map((result, i) => rowsOf(result, firstRow + i));
      if (mapped.length === rows.length) return mapped;
      await close();
      const after = rows.slice(mapped.length, mapped.length + MAP_ROWS);
      throw await culprit(pool, code, limits, { rows: after, firstRow: firstRow + mapped.length, end });
    },
  };
}

async function start(pool: RewardPool, code: ResolverCode, signal: AbortSignal) {
  const process = await pool.take(code.language, signal);
  const leave = () => void process.close();
  signal.addEventListener("abort", leave, { once: true });
  const close = async () => {
    signal.removeEventListener("abort", leave);
    await process.close();
  };
  const loaded = await process.load({ ...code, params: {}, kind: "resolver" }, LOAD_MS);
  signal.throwIfAborted(); // a closed process looks like code that was rejected
  if (loaded.ok) return { process, close };
  await close();
  throw new ResolverError(`the code cannot be run: ${at(loaded.error.line)}${loaded.error.message}`);
}

function rowsOf(result: Mapped, row: number): Row[] {
  if (result.fault === null) return result.rows;
  throw new ResolverError(`row ${row}: ${at(result.fault.line)}${result.fault.message}`);
}

type Suspects = { rows: readonly Row[]; firstRow: number; end: RewardEnd | null };

/**
 * The process ended in the middle of several rows. A new process maps them one by one, to find the row to name. JavaScript
 * has one row in each exchange, so the first row is the one.
 */
async function culprit(pool: RewardPool, code: ResolverCode, { rowMs, signal }: Limits, suspects: Suspects) {
  const { rows, firstRow, end } = suspects;
  const why = (of: RewardEnd | null) => `the code ${of?.message ?? "ended"}`;
  if (rows.length === 1 || code.language !== "python") return new ResolverError(`row ${firstRow}: ${why(end)}`);
  const { process, close } = await start(pool, code, signal);
  try {
    const again = await process.map(rows, rowMs, 1);
    signal.throwIfAborted();
    again.results.forEach((result, i) => void rowsOf(result, firstRow + i));
    if (again.end) return new ResolverError(`row ${firstRow + again.results.length}: ${why(again.end)}`);
  } finally {
    await close();
  }
  return new ResolverError(`one of the rows ${firstRow} to ${firstRow + rows.length - 1}: ${why(end)}`);
}

const at = (line: number | null) => (line === null ? "" : `line ${line}: `);
