/** Graders of OpenAI's reinforcement fine-tuning, tried on one answer. */
import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { keepOpen } from "../../../http/connection.ts";
import { describe } from "../../../http/openapi.ts";
import { AppError } from "../../../lib/errors.ts";
import { later } from "../../../lib/schema.ts";
import { callerSignal } from "../../training/reward_functions/check.ts";
import { resolveRewards } from "../../training/reward_functions/resolve.ts";
import { run } from "../../training/reward_functions/run.ts";
import { Grader, rewardSource } from "./graders.ts";

const ITEM = "item";
const RunGrader = later(() =>
  z
    .object({
      grader: Grader,
      model_sample: z.string().describe("The answer of a model"),
      item: z.record(z.string(), z.unknown()).nullish().describe("The row that {{item.field}} reads"),
    })
    .meta({ id: "RunGrader" }),
);
const ValidateGrader = later(() => z.object({ grader: Grader }).meta({ id: "ValidateGrader" }));

const CheckedGrader = later(() =>
  z.object({ grader: z.record(z.string(), z.unknown()) }).meta({ id: "CheckedGrader" }),
);

const Figure = z.number();
const GraderRun = later(() =>
  z
    .object({
      reward: Figure,
      sub_rewards: z.record(z.string(), Figure).describe("Of a multi grader: the score of each of its graders"),
      metadata: z.object({
        name: z.string(),
        type: z.string(),
        scores: z.record(z.string(), Figure),
        execution_time: Figure.describe("Seconds"),
        token_usage: z.null(),
        sampled_model_name: z.null(),
        errors: z.record(z.string(), z.union([z.boolean(), z.string(), z.null()])),
      }),
      model_grader_token_usage_per_model: z.record(z.string(), z.unknown()),
    })
    .meta({ id: "GraderRun" }),
);

/** The names of OpenAI. Graders here ask no model, so its errors cannot occur. */
const errorsOf = (details: string | null) => ({
  ...Object.fromEntries(
    ["formula_parse_error", "invalid_variable_error", "model_grader_parse_error", "model_grader_refusal_error"]
      .concat(["model_grader_server_error", "other_error", "python_grader_server_error", "sample_parse_error"])
      .concat(["truncated_observation_error", "unresponsive_reward_error"])
      .map((name) => [name, false]),
  ),
  python_grader_runtime_error: details !== null,
  python_grader_runtime_error_details: details,
  model_grader_server_error_details: null,
  python_grader_server_error_type: null,
});

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");

  type Tried = { workspaceId: string; signal: AbortSignal; sample: string; item: object };
  async function score(grader: Grader, { workspaceId, signal, sample, item }: Tried) {
    const source = { source: rewardSource(grader, ITEM), language: "python" as const, params: {} };
    const parts = resolveRewards(ctx, workspaceId, { refs: [], source, seed: 0, timeoutMs: undefined });
    const rows = [{ prompt: "", completion: sample, [ITEM]: JSON.stringify(item) }];
    const scored = await run(ctx, { workspaceId, signal, parts, rows }).catch((error: unknown) => {
      if (!(error instanceof AppError) || error.code !== "reward_invalid") throw error;
      const message = error.message.replace(/^The reward \S+ cannot/, "grader: cannot");
      throw new AppError("reward_invalid", message, { param: "/grader", cause: error });
    });
    const [result] = scored.results;
    return { reward: result?.reward ?? 0, error: result?.error?.message ?? null };
  }

  return new Elysia({ prefix: "/v1/fine_tuning/alpha/graders", tags: ["Clients"] })
    .use(authed)
    .post(
      "/run",
      async ({ request, principal, body: { grader, model_sample: sample, item } }) => {
        keepOpen(ctx, request);
        const startedAt = performance.now();
        const { workspaceId } = principal;
        const tried = { workspaceId, signal: callerSignal(ctx, request), sample, item: item ?? {} };
        const { reward, error } = await score(grader, tried);
        const scores: Record<string, number> = {};
        if (grader.type === "multi" && error === null)
          for (const [name, each] of Object.entries(grader.graders)) scores[name] = (await score(each, tried)).reward;
        return {
          reward,
          sub_rewards: scores,
          metadata: {
            name: grader.name,
            type: grader.type,
            scores,
            execution_time: (performance.now() - startedAt) / 1000,
            token_usage: null,
            sampled_model_name: null,
            errors: errorsOf(error),
          },
          model_grader_token_usage_per_model: {},
        };
      },
      {
        ...takes(RunGrader, { kind: "code" }),
        detail: describe("Score one answer with a grader, in the format of OpenAI", { 200: GraderRun }),
      },
    )
    .post("/validate", ({ body }) => ({ grader: body.grader }), {
      ...takes(ValidateGrader, { kind: "code" }),
      detail: describe("Check the fields of a grader, in the format of OpenAI", { 200: CheckedGrader }),
    });
};
