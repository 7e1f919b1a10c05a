/** From what a caller names to code that can be run: for runs, and for jobs that keep it. */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import type { Language } from "../../lib/rewards/contract.ts";
import { detectLanguage } from "../../lib/rewards/language.ts";
import type { RewardPart } from "../../sandbox/reward/scorer_types.ts";
import { builtin, checkedParams } from "./builtin.ts";
import type { RewardRef } from "./schema.ts";
import { mustFind, sourceOf } from "./service.ts";
import type { RewardFunctionRow } from "./table.ts";

/** The name of a part whose code comes with the request. */
export const INLINE = "reward";
export type RewardSource = { source: string; language?: Language | undefined; params?: Record<string, unknown> };

type Asked = {
  refs: readonly RewardRef[];
  source?: RewardSource | undefined;
  seed: number;
  /** For one sample, whatever the functions say. */
  timeoutMs?: number | undefined;
};

/** Each part with its source, so that a later deletion changes nothing for whoever holds it. */
export function resolveRewards(ctx: Ctx, workspaceId: string, { refs, source, seed, timeoutMs }: Asked): RewardPart[] {
  const own: RewardPart[] = source === undefined ? [] : [{ ...inline(source, seed), weight: 1 }];
  const named = refs.map((ref, i) => {
    const at = { id: `/reward_functions/${i}/id`, params: `/reward_functions/${i}/params` };
    return resolveOne(ctx, workspaceId, { ...ref, seed, at });
  });
  return [...own, ...named].map((part) => (timeoutMs === undefined ? part : { ...part, timeoutMs }));
}

/** `at`: what an error names. */
type One = RewardRef & { seed: number; at: { id: string; params: string } };

export function resolveOne(ctx: Ctx, workspaceId: string, one: One): RewardPart {
  const { id, weight = 1, params = {}, seed, at } = one;
  const ready = builtin(ctx, id);
  if (ready) {
    const { name, language } = ready.record;
    const { running } = ready.reward;
    const code = { language, source: ready.source, params: checkedParams(ready, params, at.params), seed, ...running };
    return { name, code, weight };
  }
  const row = mustBeReady(mustFind(ctx, workspaceId, id, at.id), at.id);
  const code = { language: row.language, source: sourceOf(ctx, row.id), params, seed };
  return { name: row.name, code, weight, timeoutMs: row.timeoutMs };
}

function mustBeReady(row: RewardFunctionRow, param: string): RewardFunctionRow {
  if (row.status === "ready") return row;
  const why = row.error ? `: ${placed(row.error)}` : "";
  throw new AppError("reward_invalid", `${row.name}@${row.version} cannot be run${why}. Upload it again, mended`, {
    param,
  });
}

type Placed = { message: string; line: number | null; column: number | null };

/** `line 3, column 5: invalid syntax` */
export function placed({ message, line, column }: Placed): string {
  const at = [line === null ? [] : `line ${line}`, column === null ? [] : `column ${column}`].flat();
  return at.length === 0 ? message : `${at.join(", ")}: ${message}`;
}

function inline({ source, language, params = {} }: RewardSource, seed: number): Omit<RewardPart, "weight"> {
  return { name: INLINE, code: { language: language ?? detected(source), source, params, seed } };
}

export function detected(source: string, param = "/language"): Language {
  const language = detectLanguage(source);
  if (language) return language;
  throw new AppError("schema", "language: cannot be told from the source: say python, typescript or javascript", {
    param,
  });
}
