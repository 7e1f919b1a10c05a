import type { Ctx } from "../../../context.ts";
import { oncePer } from "../../../lib/once_per.ts";
import { type Db, durable, generationOf, openCommit, type Tx, write } from "../../../platform/db/db.ts";
import type { Tried } from "./attempt.ts";
import { factsOf } from "./facts.ts";
import { liveOf } from "./live.ts";
import { record } from "./record.ts";
import type { Trigger } from "./verdict.ts";

/** Of an attempt. */
export type End = { id: string; trigger: Trigger; tried: Tried };

type Held = { ends: End[]; landed: Promise<Map<End, unknown>> | undefined };
const heldOf = oncePer((_db: Db): Held => ({ ends: [], landed: undefined }));

/**
 * Writes the end of an attempt down; rejects when that failed or its commit was lost. Those that come close together
 * share a commit: a page of the table is written once for all of them, and one look finds what starts in their places.
 */
export async function land({ db }: Pick<Ctx, "db">, end: End): Promise<void> {
  const held = heldOf(db);
  held.ends.push(end);
  held.landed ??= landTogether(db, held);
  const failed = await held.landed;
  if (failed.has(end)) throw failed.get(end);
}

const HOLD_MS = 1;
const FEW = 4; // under way: nobody to wait for

async function landTogether(db: Db, held: Held): Promise<Map<End, unknown>> {
  const live = liveOf(db);
  const isBusy = live.flights.size > FEW;
  await new Promise<void>((resolve) => (isBusy ? setTimeout(resolve, HOLD_MS) : setImmediate(resolve)));
  held.landed = undefined;
  const before = generationOf(db);
  const failed = writeDown(db, held.ends.splice(0));
  live.landed += generationOf(db) - before;
  await openCommit(db);
  durable(db).catch(() => {}); // soon, and nobody waits for it; after a failed flush no write is accepted
  return failed;
}

/** All, or else each by itself: one that cannot be written must not take the others with it. */
function writeDown(db: Db, ends: readonly End[]): Map<End, unknown> {
  const failed = new Map<End, unknown>();
  try {
    write(db, (tx) => {
      for (const end of ends) put(tx, end);
    });
  } catch {
    for (const end of ends)
      try {
        write(db, (tx) => put(tx, end));
      } catch (error) {
        failed.set(end, error);
      }
  }
  return failed;
}

function put(tx: Tx, { id, trigger, tried }: End): void {
  const facts = factsOf(tx, id); // as they are now: much may have happened under way
  if (facts) record(tx, facts, trigger, tried);
}
