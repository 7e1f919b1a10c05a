/** Runs a data resolver: code that makes zero, one or more rows of each row of a dataset. */
import { LOAD_MS, type RewardCode } from "../../lib/rewards/contract.ts";
import type { Row } from "../../lib/rows/format.ts";
import type { RewardPool } from "./types.ts";

/** The code failed. The message names the row and the line of the code. */
export class ResolverError extends Error {}

export type ResolverCode = Pick<RewardCode, "language" | "source" | "seed">;
export type Resolver = {
  /** Returns the rows that the code makes of each row. `firstRow` counts from 1, for the message of an error. */
  map: (rows: readonly Row[], firstRow: number) => Promise<Row[][]>;
  close: () => Promise<void>;
};

/** `signal` ends the process. Throws ResolverError if the code cannot be loaded. */
export async function openResolver(
  pool: RewardPool,
  code: ResolverCode,
  { rowMs, signal }: { rowMs: number; signal: AbortSignal },
): Promise<Resolver> {
  const process = await pool.take(code.language, signal);
  const leave = () => void process.close();
  signal.addEventListener("abort", leave, { once: true });
  const close = async () => {
    signal.removeEventListener("abort", leave);
    await process.close();
  };
  const loaded = await process.load({ ...code, params: {}, kind: "resolver" }, LOAD_MS);
  signal.throwIfAborted(); // a closed process looks like code that was rejected
  if (!loaded.ok) {
    await close();
    throw new ResolverError(`the code cannot be run: ${at(loaded.error.line)}${loaded.error.message}`);
  }
  return {
    close,
    async map(rows, firstRow) {
      const { results, end } = await process.map(rows, rowMs);
      signal.throwIfAborted();
      return rows.map((_, i) => {
        const result = results[i];
        if (result && result.fault === null) return result.rows;
        const why = result ? `${at(result.fault.line)}${result.fault.message}` : `the code ${end?.message ?? "ended"}`;
        throw new ResolverError(`row ${firstRow + i}: ${why}`);
      });
    },
  };
}

const at = (line: number | null) => (line === null ? "" : `line ${line}: `);
