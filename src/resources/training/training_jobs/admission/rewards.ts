/** The rewards of a job: resolved, loaded once in the sandbox, and copied with their code. */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { isId } from "../../../../lib/ids.ts";
import type { Environment } from "../../../../lib/rewards/contract.ts";
import { isRolled, ROLLED_METHODS } from "../../../../lib/training/fields.ts";
import type { RewardPart } from "../../../../sandbox/reward/scorer_types.ts";
import { evaluatorReward } from "../../../quality/evaluators/reward.ts";
import type { EvaluatorReward } from "../../../quality/evaluators/table.ts";
import { check } from "../../reward_functions/check.ts";
import { mustFit } from "../../reward_functions/processes.ts";
import { formatLocation, resolveOne, resolveRewards } from "../../reward_functions/resolve.ts";
import * as rewardFunctions from "../../reward_functions/service.ts";
import { hasRewards } from "../policy.ts";
import type { Rewards } from "../table.ts";
import type { JobRequest } from "./clone.ts";
import type { Faults } from "./faults.ts";

export const NO_REWARDS: Rewards = { source: null, language: null, functions: [], parts: [] };

type Caller = { workspaceId: string; seed: number; signal: AbortSignal };

/** Undefined if the rewards are missing or wrong. */
export async function admitRewards(
  ctx: Ctx,
  request: JobRequest,
  caller: Caller,
  faults: Faults,
): Promise<Rewards | undefined> {
  const { reward_source: source = null, reward_functions: refs = [], method } = request;
  const field = source !== null ? "/reward_source" : refs.length > 0 ? "/reward_functions" : undefined;
  if (!isRolled(method)) {
    const methods = `${ROLLED_METHODS.slice(0, -1).join(", ")} and ${ROLLED_METHODS.at(-1)}`;
    if (field && method !== undefined) faults.refuse(field, `is only for the methods ${methods}, not for ${method}`);
    return NO_REWARDS;
  }
  if (!field && method === "distill") return NO_REWARDS; // the teacher says what is good
  if (!field) {
    faults.refuse("/reward_source", `is missing: ${method} needs reward_source or reward_functions`);
    return undefined;
  }
  const resolution = faults.attempt(() => resolved(ctx, request, caller));
  if (!resolution) return undefined;
  const { parts, evaluators } = resolution;
  faults.attempt(() => mustFit(ctx, parts.length));
  if ([...parts, ...evaluators].every(({ weight }) => weight === 0))
    faults.refuse("/reward_functions", "at least one must have a weight other than 0");
  const sentPart = source === null ? undefined : parts[0];
  const environments = await faults.attemptLater(() => loadParts(ctx, parts, sentPart, caller));
  return {
    source,
    language: sentPart?.code.language ?? null,
    functions: refs.map(({ id, weight = 1, params = {} }) => ({
      id: isId(id, "evl") ? id : rewardFunctions.get(ctx, caller.workspaceId, id).id, // of the version that is the newest now
      weight,
      params,
    })),
    parts,
    ...(evaluators.length > 0 ? { evaluators } : {}),
    ...(environments?.length ? { environments } : {}),
  };
}

/** `parts`: code for the sandbox. `evaluators`: the others. An evaluator is named by its id alone. */
function resolved(ctx: Ctx, request: JobRequest, { workspaceId, seed }: Caller) {
  const { reward_source: source, reward_language, reward_functions: refs = [] } = request;
  const sentSource = source
    ? { source, language: reward_language ?? undefined, languageField: "reward_language" }
    : undefined;
  const parts = resolveRewards(ctx, workspaceId, { refs: [], source: sentSource, seed });
  const evaluators: EvaluatorReward[] = [];
  for (const [i, { id, weight = 1, params = {} }] of refs.entries()) {
    const at = `/reward_functions/${i}`;
    const reward = isId(id, "evl")
      ? evaluatorReward(ctx, workspaceId, { id, weight, params, seed, at })
      : resolveOne(ctx, workspaceId, { id, weight, params, seed, at: { id: `${at}/id`, params: `${at}/params` } });
    if ("code" in reward) parts.push(reward);
    else evaluators.push(reward);
  }
  return { parts, evaluators };
}

/** Stored code was loaded when it was stored, but its environments were not kept. */
const mayHaveEnvironment = ({ code }: RewardPart) => /\bclass\b[\s\S]*\breset\b/.test(code.source);

/** The environments of the one part that has some. Code that was sent must load. */
async function loadParts(
  ctx: Ctx,
  parts: readonly RewardPart[],
  sent: RewardPart | undefined,
  caller: Caller,
): Promise<Environment[]> {
  const all: Environment[][] = [];
  for (const part of parts.filter((each) => each === sent || mayHaveEnvironment(each))) {
    const loaded = await check(ctx, part.code, caller);
    if (loaded.ok) all.push(loaded.environments);
    else if (part === sent) {
      const message = `reward_source: cannot be run: ${formatLocation(loaded.error)}`;
      throw new AppError("reward_invalid", message, { param: "/reward_source" });
    }
  }
  const [environments = [], other] = all.filter((each) => each.length > 0);
  if (other)
    throw new AppError(
      "schema",
      `reward_functions: the environments ${environments[0]?.name} and ${other[0]?.name} are in two sources. Put them into one; a row names its own in the column environment`,
      { param: "/reward_functions" },
    );
  return environments;
}

/** Hash of everything that decides a score: code, parameters, weights. Null without rewards. */
export function hashOf(rewards: Rewards): string | null {
  if (!hasRewards(rewards)) return null;
  const { parts, evaluators = [] } = rewards;
  const code = parts.map(({ name, weight, code: { language, source, params } }) => [
    name,
    weight,
    language,
    source,
    params,
  ]);
  const others = evaluators.map(({ weight, evaluator: { name, kind, config } }) => [name, weight, kind, config]);
  return new Bun.CryptoHasher("sha256").update(JSON.stringify([...code, ...others])).digest("hex");
}
