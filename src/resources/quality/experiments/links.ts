/** Finds experiments by what they name: a deployment, a training job or an evaluator. */
import { and, eq, exists, inArray, type SQL, sql } from "drizzle-orm";
import type { Db, Tx } from "../../../platform/db/db.ts";
import { type ExperimentRow, experimentLinks, experiments } from "./table.ts";

const { linkedId, experimentId } = experimentLinks;

const idsOf = ({ targets, evaluators }: ExperimentRow): string[] => {
  const named = [...targets.flatMap((each) => [each.deploymentId, each.jobId]), ...evaluators.map(({ id }) => id)];
  return [...new Set(named.filter((id) => id !== null))];
};

/** Call it in each commit that changes the targets. */
export function link(tx: Tx, row: ExperimentRow) {
  const links = idsOf(row).map((linked) => ({ linkedId: linked, experimentId: row.id }));
  if (links.length > 0) tx.insert(experimentLinks).values(links).onConflictDoNothing().run();
}

export function unlink(tx: Tx, row: ExperimentRow) {
  tx.delete(experimentLinks)
    .where(and(inArray(linkedId, idsOf(row)), eq(experimentId, row.id)))
    .run();
}

/** A condition for a query of experiments. */
export const isLinkedTo = (db: Db, id: string): SQL =>
  exists(
    db
      .select({ one: sql`1` })
      .from(experimentLinks)
      .where(and(eq(linkedId, id), eq(experimentId, experiments.id))),
  );
