/** GET /api/v0/models: the list that clients of LM Studio read. Their other calls are those of OpenAI. */
import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../context.ts";
import { area } from "../../http/auth.ts";
import { describe } from "../../http/openapi.ts";
import { later } from "../../lib/schema.ts";
import { listUsable } from "../serving/agents/listed.ts";
import type { Model } from "../serving/models/schema.ts";

const MAX_LISTED = 1_000;

const LmStudioModels = later(() =>
  z
    .object({
      object: z.literal("list"),
      data: z.array(
        z.object({
          id: z.string(),
          object: z.literal("model"),
          type: z.literal("llm"),
          publisher: z.string(),
          arch: z.string(),
          compatibility_type: z.string(),
          quantization: z.string(),
          state: z.enum(["loaded", "not-loaded"]).describe("not-loaded: parked, or it starts"),
          max_context_length: z.int(),
        }),
      ),
    })
    .meta({ id: "LmStudioModelList" }),
);

const toListed = (model: Model) => ({
  id: model.id,
  object: "model",
  type: "llm",
  publisher: model.owned_by,
  arch: model.architecture ?? "",
  compatibility_type: model.format,
  quantization: model.quantization ?? "",
  state: model.deployment?.status === "serving" && !model.deployment.parked ? "loaded" : "not-loaded",
  max_context_length: model.context_length ?? 0,
});

export const routes = (ctx: Ctx) => {
  const { authed } = area(ctx, "inference");
  return new Elysia({ tags: ["Clients"] }).use(authed).get(
    "/api/v0/models",
    async ({ principal }) => {
      const { data } = await listUsable(ctx, principal.workspaceId, { limit: MAX_LISTED, after: undefined });
      return { object: "list", data: data.map(toListed) };
    },
    { detail: describe("List deployments and agents, as LM Studio lists models", { 200: LmStudioModels }) },
  );
};
