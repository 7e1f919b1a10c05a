/** Finds what depends on a model: deployments, running jobs, adapters, and copies that are still being made of it. */
import { and, eq, isNotNull, isNull, or, type SQL, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import * as models from "../service.ts";
import { type ModelRow, models as table } from "../table.ts";

export const DEPENDENT_KINDS = ["deployment", "training_job", "adapter", "copy"] as const;
type Kind = (typeof DEPENDENT_KINDS)[number];
export type Dependent = { kind: Kind; id: string; name: string; status: string };

const MOST_EACH = 50;

/** At most 50 of each kind. `workspaceId` null: of all workspaces, which may use a model of the installation. */
export const dependentsOf = (ctx: Ctx, row: ModelRow, workspaceId: string | null): Dependent[] => [
  ...deploymentsOf(ctx, row, workspaceId),
  ...jobsOf(ctx, row, workspaceId),
  ...adaptersOf(ctx, row, workspaceId ?? row.workspaceId).map(presentAs("adapter")),
  ...copiesOf(ctx, row, workspaceId).map(presentAs("copy")),
];

const presentAs =
  (kind: Kind) =>
  ({ id, name, status }: ModelRow): Dependent => ({ kind, id, name, status });

const rowsOf = (ctx: Ctx, kind: Kind, query: SQL): Dependent[] =>
  ctx.db.all<Omit<Dependent, "kind">>(query).map((row) => ({ kind, ...row }));

const within = (workspaceId: string | null) => (workspaceId === null ? sql`1` : sql`workspace_id = ${workspaceId}`);

const deploymentsOf = (ctx: Ctx, { id }: ModelRow, workspaceId: string | null) =>
  rowsOf(
    ctx,
    "deployment",
    sql`SELECT id, name, status FROM deployments WHERE (model_id = ${id} OR json_extract(next_model, '$.modelId') = ${id}) AND status NOT IN ('stopped', 'failed') AND ${within(workspaceId)} LIMIT ${MOST_EACH}`,
  );

const jobsOf = (ctx: Ctx, { id }: ModelRow, workspaceId: string | null) =>
  rowsOf(
    ctx,
    "training_job",
    sql`SELECT id, output_name AS name, status FROM training_jobs WHERE (base_model_id = ${id} OR start_model_id = ${id}) AND completed_at IS NULL AND ${within(workspaceId)} LIMIT ${MOST_EACH}`,
  );

const copiesOf = (ctx: Ctx, { id }: ModelRow, workspaceId: string | null): ModelRow[] =>
  ctx.db
    .select()
    .from(table)
    .where(
      and(eq(table.baseModelId, id), eq(table.source, "quantized"), eq(table.status, "pending"), within(workspaceId)),
    )
    .limit(MOST_EACH)
    .all();

/** Adapters that cannot be served without this model. Uploaded ones know its name only: each name is looked up once. */
function adaptersOf(ctx: Ctx, { id }: ModelRow, workspaceId: string | null): ModelRow[] {
  const adapters = and(within(workspaceId), models.here, sql`${table.shape} ->> '$.type' = 'adapter'`);
  const named = and(adapters, isNull(table.baseModelId), isNotNull(table.baseModel));
  const names = ctx.db
    .selectDistinct({ workspaceId: table.workspaceId, baseModel: table.baseModel })
    .from(table)
    .where(named)
    .all()
    .filter((each) => models.find(ctx, each.workspaceId ?? "", each.baseModel ?? "")?.id === id)
    .map((each) => and(named, sql`workspace_id IS ${each.workspaceId}`, sql`base_model = ${each.baseModel}`));
  return ctx.db
    .select()
    .from(table)
    .where(or(and(adapters, eq(table.baseModelId, id)), ...names))
    .limit(MOST_EACH)
    .all();
}

export function mustBeUnused(ctx: Ctx, row: ModelRow) {
  const dependents = dependentsOf(ctx, row, null);
  const [first] = dependents;
  if (!first) return;
  const adapters = dependents.filter(({ kind }) => kind === "adapter").map(({ id, name }) => `${name} (${id})`);
  const whys: Record<Kind, string> = {
    deployment: `Deployment ${first.name} uses model ${row.name}: stop it first with \`verk deployments stop ${first.name}\``,
    training_job: `Training job ${first.id} trains on model ${row.name}: cancel it first, or wait until it has ended`,
    adapter: `Model ${row.name} is the base model of ${listed(adapters)}: delete ${adapters.length === 1 ? "it" : "them"} first`,
    copy: `Model ${first.name} is being quantized from model ${row.name}: delete it first, or wait for it`,
  };
  throw new AppError("unsupported_state", whys[first.kind], { param: "id" });
}

const listed = (names: string[]) =>
  names.length > 5 ? `${names.slice(0, 5).join(", ")} and ${names.length - 5} more` : names.join(", ");
