/** The rewards of a job: found, read by the sandbox, and kept with their code. */

import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import type { RewardPart } from "../../../sandbox/reward/scorer_types.ts";
import * as codeCheck from "../../reward_functions/check.ts";
import * as rewardCode from "../../reward_functions/resolve.ts";
import * as rewardFunctions from "../../reward_functions/service.ts";
import type { Rewards } from "../table.ts";
import type { Wanted } from "./clone.ts";
import type { Faults } from "./faults.ts";

export const NO_REWARDS: Rewards = { source: null, language: null, functions: [], parts: [] };
const NAMES = { "/language": "/reward_language" };

type Asker = { workspaceId: string; seed: number; signal: AbortSignal };

export async function admitRewards(ctx: Ctx, wanted: Wanted, asker: Asker, faults: Faults): Promise<Rewards> {
  const { reward_source: source = null, reward_functions: refs = [], method } = wanted;
  const given = source !== null ? "/reward_source" : refs.length > 0 ? "/reward_functions" : undefined;
  if (method !== "grpo") {
    if (given && method !== undefined) faults.refuse(given, `goes with the method grpo, this job's is ${method}`);
    return NO_REWARDS;
  }
  if (!given) {
    faults.refuse("/reward_source", "is missing: grpo needs code that scores, as reward_source or reward_functions");
    return NO_REWARDS;
  }
  const parts = faults.attempt(() => resolved(ctx, wanted, asker), NAMES);
  if (!parts) return NO_REWARDS;
  const { processes } = ctx.config.sandbox;
  if (parts.length > processes)
    faults.refuse("/reward_functions", `${parts.length} rewards are too many: this server runs ${processes} at once`);
  else if (parts.every(({ weight }) => weight === 0))
    faults.refuse("/reward_functions", "all have the weight 0: nothing could be learned");
  const own = source === null ? undefined : parts[0];
  if (own) await faults.attemptLater(() => mustLoad(ctx, own, asker));
  return {
    source,
    language: own?.code.language ?? null,
    functions: refs.map(({ id, weight = 1, params = {} }) => ({
      id: rewardFunctions.get(ctx, asker.workspaceId, id).id, // the version that is the newest now
      weight,
      params,
    })),
    parts,
  };
}

function resolved(ctx: Ctx, wanted: Wanted, { workspaceId, seed }: Asker): RewardPart[] {
  const { reward_source: source, reward_language, reward_functions: refs = [] } = wanted;
  const own = source ? { source, language: reward_language ?? undefined } : undefined;
  return rewardCode.resolveRewards(ctx, workspaceId, { refs, source: own, seed });
}

async function mustLoad(ctx: Ctx, { code }: RewardPart, asker: Asker) {
  const loaded = await codeCheck.check(ctx, code, asker);
  if (loaded.ok) return;
  const message = `reward_source: cannot be run: ${rewardCode.placed(loaded.error)}`;
  throw new AppError("reward_invalid", message, { param: "/reward_source" });
}

/** Of all that decides a score: code, parameters, weights. Null where nothing is scored. */
export function hashOf({ parts }: Rewards): string | null {
  if (parts.length === 0) return null;
  const what = parts.map(({ name, weight, code: { language, source, params } }) => [
    name,
    weight,
    language,
    source,
    params,
  ]);
  return new Bun.CryptoHasher("sha256").update(JSON.stringify(what)).digest("hex");
}
