/** Every change of a push. Statuses change by the machine alone, with their events. */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import { type Db, type Tx, write } from "../../../platform/db/db.ts";
import { trainingJobs } from "../training_jobs/table.ts";
import { machine } from "./machine.ts";
import { hubPushes, type PushRow, type SentFile, type Upload } from "./table.ts";

export const current = (db: Db | Tx, id: string): PushRow | undefined =>
  db.select().from(hubPushes).where(eq(hubPushes.id, id)).get();

const change = (ctx: Ctx, id: string, of: (row: PushRow) => Partial<PushRow>) =>
  write(ctx.db, (tx) => {
    const row = current(tx, id);
    if (row && row.completedAt === null) tx.update(hubPushes).set(of(row)).where(eq(hubPushes.id, id)).run();
  });

/** The files are made. False: the push has ended meanwhile. */
export function begin(ctx: Ctx, id: string, bytesTotal: number): boolean {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const row = current(tx, id);
    if (row?.status === "pushing") {
      tx.update(hubPushes).set({ bytesTotal }).where(eq(hubPushes.id, id)).run();
      return true;
    }
    return transition(tx, machine, "push", { id, now }, { bytesTotal, error: null }) !== undefined;
  });
}

/** Bytes of an upload in parts are counted with its parts. */
export const recordSent = (ctx: Ctx, id: string, file: SentFile) =>
  change(ctx, id, ({ sent }) => {
    const files = [...sent.filter(({ path }) => path !== file.path), file];
    const bytesDone = files.reduce((sum, { size }) => sum + size, 0);
    return { sent: files, upload: null, bytesDone, attempts: 0, error: null };
  });

export const recordPart = (ctx: Ctx, id: string, upload: Upload, bytes: number) =>
  change(ctx, id, (row) => ({ upload, bytesDone: row.bytesDone + bytes, attempts: 0, error: null }));

export const forgetUpload = (ctx: Ctx, id: string) =>
  change(ctx, id, ({ sent }) => ({ upload: null, bytesDone: sent.reduce((sum, { size }) => sum + size, 0) }));

/** The next try comes after a pause. */
export const postpone = (ctx: Ctx, id: string, pauseMs: number, error: string | null) =>
  change(ctx, id, (row) => ({
    notBefore: ctx.clock.now() + pauseMs,
    ...(error === null ? {} : { error, attempts: row.attempts + 1 }),
  }));

export function fail(ctx: Ctx, id: string, error: string) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => transition(tx, machine, "fail", { id, now }, { error, completedAt: now, upload: null }));
}

export function cancel(ctx: Ctx, id: string): PushRow | undefined {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => transition(tx, machine, "cancel", { id, now }, { completedAt: now, upload: null }));
}

/** The run shows the repository in the same commit. */
export function complete(ctx: Ctx, { id, jobId }: PushRow, { url, commitId }: { url: string; commitId: string }) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    const patch = { url, commitId, error: null, completedAt: now, upload: null };
    const row = transition(tx, machine, "complete", { id, now }, patch);
    if (row && jobId !== null) tx.update(trainingJobs).set({ hubRepoUrl: url }).where(eq(trainingJobs.id, jobId)).run();
  });
}
