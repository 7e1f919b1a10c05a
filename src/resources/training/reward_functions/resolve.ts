/** Resolves the rewards that a caller names to code, for runs and for jobs. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import type { Language } from "../../../lib/rewards/contract.ts";
import { detectLanguage } from "../../../lib/rewards/language.ts";
import type { RewardPart } from "../../../sandbox/reward/scorer_types.ts";
import { builtin, checkedParams } from "./builtin.ts";
import type { RewardRef } from "./schema.ts";
import { mustFind, sourceOf } from "./service.ts";
import type { Kind, RewardFunctionRow } from "./table.ts";

/** The name of a part whose code comes with the request. */
export const INLINE = "reward";
/** `languageField`: the field of the request that sets the language; `language` by default. */
export type RewardSource = {
  source: string;
  language?: Language | undefined;
  languageField?: string;
  params?: Record<string, unknown>;
};

type RewardRequest = {
  refs: readonly RewardRef[];
  source?: RewardSource | undefined;
  seed: number;
  /** For one sample; overrides the timeouts of the functions. */
  timeoutMs?: number | undefined;
};

/** Each part has its source, so that a later deletion of the function changes nothing for the caller. */
export function resolveRewards(
  ctx: Ctx,
  workspaceId: string,
  { refs, source, seed, timeoutMs }: RewardRequest,
): RewardPart[] {
  const inlineParts: RewardPart[] = source === undefined ? [] : [{ ...inline(source, seed), weight: 1 }];
  const named = refs.map((ref, i) => {
    const at = { id: `/reward_functions/${i}/id`, params: `/reward_functions/${i}/params` };
    return resolveOne(ctx, workspaceId, { ...ref, seed, at });
  });
  return [...inlineParts, ...named].map((part) => (timeoutMs === undefined ? part : { ...part, timeoutMs }));
}

/** `at`: params for errors. */
type RefRequest = RewardRef & { seed: number; at: { id: string; params: string } };

export function resolveOne(ctx: Ctx, workspaceId: string, one: RefRequest): RewardPart {
  const { id, weight = 1, params = {}, seed, at } = one;
  const entry = builtin(ctx, id);
  if (entry) {
    const { name, language } = entry.record;
    const { running } = entry.reward;
    const code = { language, source: entry.source, params: checkedParams(entry, params, at.params), seed, ...running };
    return { name, code, weight };
  }
  const row = mustBeReady(mustBe("reward", mustFind(ctx, workspaceId, id, at.id), at.id), at.id);
  const code = { language: row.language, source: sourceOf(ctx, row.id), params, seed };
  return { name: row.name, code, weight, timeoutMs: row.timeoutMs };
}

/** A data resolver that is kept by name, with its code. */
export function resolverOf(ctx: Ctx, workspaceId: string, ref: string, param: string) {
  if (builtin(ctx, ref)) throw new AppError("schema", `${ref} is a built-in reward, ${NOT_A.resolver}`, { param });
  const row = mustBeReady(mustBe("resolver", mustFind(ctx, workspaceId, ref, param), param), param);
  return { row, source: sourceOf(ctx, row.id) };
}

const NOT_A = {
  reward: "not a reward: use it as data_resolver of a job",
  resolver: "not a data resolver: upload the code with the kind resolver",
};

function mustBe(kind: Kind, row: RewardFunctionRow, param: string): RewardFunctionRow {
  if (row.kind === kind) return row;
  const what = row.kind === "reward" ? "a reward" : "a data resolver";
  throw new AppError("schema", `${row.name}@${row.version} is ${what}, ${NOT_A[kind]}`, { param });
}

function mustBeReady(row: RewardFunctionRow, param: string): RewardFunctionRow {
  if (row.status === "ready") return row;
  const why = row.error ? `: ${formatLocation(row.error)}` : "";
  throw new AppError("reward_invalid", `${row.name}@${row.version} cannot be run${why}. Upload a fixed version`, {
    param,
  });
}

type Located = { message: string; line: number | null; column: number | null };

/** Example: `line 3, column 5: invalid syntax` */
export function formatLocation({ message, line, column }: Located): string {
  const at = [line === null ? [] : `line ${line}`, column === null ? [] : `column ${column}`].flat();
  return at.length === 0 ? message : `${at.join(", ")}: ${message}`;
}

function inline({ source, language, languageField = "language", params = {} }: RewardSource, seed: number) {
  return { name: INLINE, code: { language: language ?? detected(source, languageField), source, params, seed } };
}

/** `field` is named in the message; `param` is a JSON pointer to it, or its name in a form. */
export function detected(source: string, field = "language", param = `/${field}`): Language {
  const language = detectLanguage(source);
  if (language) return language;
  const message = `\`${field}\` could not be detected; set it to python, typescript or javascript`;
  throw new AppError("schema", message, { param });
}
