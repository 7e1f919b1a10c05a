/** Built-in rewards, which every workspace has. The id of a built-in reward is its name. */
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { deepest, type Issue } from "../../../http/answer/issues.ts";
import { AppError } from "../../../lib/errors.ts";
import { LIBRARY, type LibraryReward } from "../../../lib/rewards/library.ts";
import { issueText } from "../../../lib/text/issue.ts";
import type { RewardFunction } from "./schema.ts";

export type Builtin = { record: RewardFunction; source: string; reward: LibraryReward };

export const isBuiltin = (name: string) => Object.hasOwn(LIBRARY, name);

export function builtin(ctx: Ctx, name: string): Builtin | undefined {
  const reward = isBuiltin(name) ? LIBRARY[name] : undefined;
  return reward && { record: recordOf(ctx, name, reward), source: reward.source, reward };
}

export const builtins = (ctx: Ctx): RewardFunction[] =>
  Object.entries(LIBRARY).map(([name, reward]) => recordOf(ctx, name, reward));

const recordOf = (ctx: Ctx, name: string, reward: LibraryReward): RewardFunction => ({
  object: "reward_function",
  id: name,
  name,
  version: 1,
  kind: "reward",
  builtin: true,
  language: reward.language,
  description: reward.description,
  metadata: {},
  timeout_seconds: ctx.config.sandbox.sample_timeout_ms / 1000,
  entrypoints: entrypointsOf(reward.source),
  params: z.toJSONSchema(reward.params, { io: "input" }) as Record<string, unknown>,
  sha256: new Bun.CryptoHasher("sha256").update(reward.source).digest("hex"),
  size_bytes: Buffer.byteLength(reward.source),
  status: "ready",
  error: null,
  created_at: null,
});

/** Each has one function, with its parameters in one line. */
function entrypointsOf(source: string): RewardFunction["entrypoints"] {
  const lines = source.split("\n");
  const at = lines.findIndex((line) => line.startsWith("def reward("));
  const signature = lines[at]?.replace(/^def (.*):$/, "$1");
  return signature === undefined ? [] : [{ name: "reward", signature, form: "batch", is_async: false, line: at + 1 }];
}

/** The params with defaults filled in. `at`: JSON pointer for errors. */
export function checkedParams(
  { reward }: Builtin,
  params: Record<string, unknown>,
  at: string,
): Record<string, unknown> {
  const result = reward.params.safeParse(params);
  if (result.success) return result.data as Record<string, unknown>;
  const [first] = result.error.issues as Issue[];
  const issue = first && deepest(first);
  const path = (issue?.path ?? []).map(String);
  const field = `params${path.map((each) => `.${each}`).join("")}`;
  throw new AppError("schema", `${field}: ${issueText(issue)}`, {
    param: [at, ...path].join("/"),
  });
}
