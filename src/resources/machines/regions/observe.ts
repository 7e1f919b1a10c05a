/** The loop `regions.observe`: asks each node once a minute what it has. A slow node does not hold up the others. */

import { and, asc, eq, getTableColumns, gt, ne, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { errorText } from "../../../lib/error_text.ts";
import { MINUTE_MS } from "../../../lib/units.ts";
import { prepared, write } from "../../../platform/db/db.ts";
import type { NodeInfo } from "../../../platform/providers/protocol.ts";
import { Unreachable } from "../../../platform/providers/types.ts";
import { providerOf } from "./provider.ts";
import { type RegionRow, regions } from "./table.ts";

/** Rows of one tick. The next tick goes on after them. */
const PAGE = 500;
/** Each question is an ssh client, and a node may let it wait. */
export const AT_ONCE = 128;
export const AT_ONCE_EACH = 4;
const FAULT_CHARACTERS = 500;

const { info: _info, ...COLUMNS } = getTableColumns(regions);
type Due = { id: string; workspaceId: string };

export function observe(ctx: Ctx) {
  const { askedAt, asking, askingOf } = ctx.state.regions;
  const now = ctx.clock.steady();
  const lastAsked = ({ id }: Due) => askedAt.get(id) ?? Number.NEGATIVE_INFINITY;
  const due = nextPage(ctx).filter((each) => !asking.has(each.id) && now - lastAsked(each) >= MINUTE_MS);
  for (const each of due.sort((a, b) => lastAsked(a) - lastAsked(b))) {
    const { id, workspaceId } = each;
    if (asking.size >= AT_ONCE) return;
    if ((askingOf.get(workspaceId) ?? 0) >= AT_ONCE_EACH) continue;
    askedAt.set(id, now);
    const end = ctx.state.regions.begin(id, workspaceId);
    const question = ask(ctx, each)
      .catch((error) => ctx.log.error("cannot observe a region", { region: id, error }))
      .finally(end);
    asking.set(id, question);
  }
}

const pageAfter = prepared((db) =>
  db
    .select({ id: regions.id, workspaceId: regions.workspaceId })
    .from(regions)
    .where(and(gt(regions.id, sql.placeholder("last")), ne(regions.kind, "exec"))) // clouds.reconcile follows those
    .orderBy(asc(regions.id))
    .limit(PAGE)
    .prepare(),
);

/** Only names are read: a row may be long. */
function nextPage(ctx: Ctx): Due[] {
  const state = ctx.state.regions;
  const rows = pageAfter(ctx.db).all({ last: state.observedTo });
  state.observedTo = rows.length === PAGE ? (rows.at(-1)?.id ?? "") : "";
  return rows;
}

async function ask(ctx: Ctx, { id, workspaceId }: Due): Promise<void> {
  const row = ctx.db
    .select(COLUMNS)
    .from(regions)
    .where(and(eq(regions.id, id), eq(regions.workspaceId, workspaceId)))
    .get();
  if (!row) return;
  await refresh(ctx, { ...row, info: null }).catch(nothing); // the row has the fault
}

const nothing = () => {};

/** Asks the program on the node what it has, and stores the answer or the fault. */
export async function refresh(ctx: Ctx, row: RegionRow): Promise<NodeInfo> {
  try {
    const info = await providerOf(ctx, row).info();
    store(ctx, row.id, { info, fault: null, seenAt: ctx.clock.now() });
    return info;
  } catch (error) {
    const fault = errorText(error).slice(0, FAULT_CHARACTERS);
    store(ctx, row.id, error instanceof Unreachable ? { fault } : { fault, info: null }); // an unusable answer replaces the last
    throw error;
  }
}

/** Does nothing after the end of the server, or if the region was deleted meanwhile. */
function store(ctx: Ctx, id: string, patch: Partial<RegionRow>) {
  if (ctx.closing.aborted) return;
  write(ctx.db, (tx) => tx.update(regions).set(patch).where(eq(regions.id, id)).run());
}
