/** Creates a version: checks what its settings name, loads code in the sandbox, and stores it. */
import type { Ctx } from "../../../context.ts";
import { type Creation, createsLater, type Once } from "../../../http/idempotency.ts";
import { AppError } from "../../../lib/errors.ts";
import { write } from "../../../platform/db/db.ts";
import { callerSignal, check } from "../../training/reward_functions/check.ts";
import { detected, formatLocation, resolveOne } from "../../training/reward_functions/resolve.ts";
import { run } from "../../training/reward_functions/run.ts";
import * as rewardFunctions from "../../training/reward_functions/service.ts";
import type { Settings } from "./config.ts";
import { type CreateEvaluator, type Evaluator, present } from "./schema.ts";
import * as evaluators from "./service.ts";
import type { EvaluatorRow } from "./table.ts";

export async function create(ctx: Ctx, call: Creation & { body: CreateEvaluator }): Promise<Evaluator> {
  return createsLater(ctx, call, async (once) => {
    const before = once && write(ctx.db, (tx) => once.before(tx));
    if (before) return before as Evaluator; // the answer that `keep` stored
    return store(ctx, call, await versionOf(ctx, call), once);
  });
}

/** Returns the newest version of the name with 200 if it has the same settings. */
function store(ctx: Ctx, call: Creation, version: evaluators.NewVersion, once?: Once): Evaluator {
  return write(ctx.db, (tx) => {
    const last = evaluators.newest({ db: tx }, version.workspaceId, version.name);
    const same = last && isSame(last, evaluators.sourceOf({ db: tx }, last.id), version) ? last : undefined;
    if (same) call.set.status = 200;
    const answer = present(same ?? evaluators.add(tx, version, ctx.clock.now()), version.source);
    once?.keep(tx, answer);
    return answer;
  });
}

function isSame(row: EvaluatorRow, source: string, version: evaluators.NewVersion): boolean {
  const { kind, config, passThreshold, description, metadata } = version;
  const facts = { kind, config, passThreshold, description, metadata };
  const others = Object.fromEntries(Object.keys(facts).map((key) => [key, row[key as keyof typeof facts]]));
  return source === (version.source ?? "") && Bun.deepEquals(facts, others);
}

async function versionOf(
  ctx: Ctx,
  { request, principal: { workspaceId }, body }: Creation & { body: CreateEvaluator },
): Promise<evaluators.NewVersion> {
  const caller = { workspaceId, signal: callerSignal(ctx, request) };
  const { settings, source } = await settingsFor(ctx, caller, body);
  return {
    workspaceId,
    name: body.name,
    ...settings,
    source,
    description: body.description ?? null,
    metadata: body.metadata ?? {},
    passThreshold: body.pass_threshold ?? null,
  };
}

type Caller = { workspaceId: string; signal: AbortSignal };
type Checked = { settings: Settings; source: string | null };

async function settingsFor(ctx: Ctx, caller: Caller, body: CreateEvaluator): Promise<Checked> {
  const { workspaceId } = caller;
  switch (body.kind) {
    case "code":
      return codeSettings(ctx, caller, body.config);
    case "reward_function": {
      const { reward_function: id, params } = body.config;
      const at = { id: "/config/reward_function", params: "/config/params" };
      const { code } = resolveOne(ctx, workspaceId, { id, params, seed: 0, at });
      const version = rewardFunctions.get(ctx, workspaceId, id).id;
      return { settings: { kind: body.kind, config: { reward_function: version, params: code.params } }, source: null };
    }
    case "json_schema":
      await mustBeSchema(ctx, caller, body.config);
      return { settings: { kind: body.kind, config: body.config }, source: null };
    case "similarity":
      evaluators.mustServe(ctx, workspaceId, body.config.deployment, "/config/deployment");
      return { settings: { kind: body.kind, config: body.config }, source: null };
    case "llm_judge":
      evaluators.mustServe(ctx, workspaceId, body.config.deployment, "/config/deployment");
      return { settings: { kind: body.kind, config: body.config }, source: null };
    case "string_check":
      return { settings: { kind: body.kind, config: body.config }, source: null };
  }
}

async function codeSettings(
  ctx: Ctx,
  caller: Caller,
  {
    source,
    language = detected(source, "config.language", "/config/language"),
    params,
    timeout_seconds,
  }: Extract<CreateEvaluator, { kind: "code" }>["config"],
): Promise<Checked> {
  const loaded = await check(ctx, { language, source, params, seed: 0 }, caller);
  if (!loaded.ok)
    throw new AppError("reward_invalid", `config.source: cannot be run: ${formatLocation(loaded.error)}`, {
      param: "/config/source",
    });
  const config = { language, params, timeout_seconds: timeout_seconds ?? ctx.config.sandbox.sample_timeout_ms / 1000 };
  return { settings: { kind: "code", config }, source };
}

/** A trial run: the code of the built-in reward checks the schema. */
async function mustBeSchema(
  ctx: Ctx,
  caller: Caller,
  config: Extract<CreateEvaluator, { kind: "json_schema" }>["config"],
) {
  const at = { id: "/kind", params: "/config" };
  const part = resolveOne(ctx, caller.workspaceId, { id: "json_schema", params: config, seed: 0, at });
  const { results } = await run(ctx, { ...caller, parts: [part], rows: [{ prompt: "", completion: "null" }] });
  const fault = results[0]?.error;
  if (fault) throw new AppError("schema", `config.schema: ${fault.message}`, { param: "/config/schema" });
}
