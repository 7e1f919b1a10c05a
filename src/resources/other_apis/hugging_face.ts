/** The call of Hugging Face's clients for embeddings. Their chats and texts are those of OpenAI. */
import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../context.ts";
import { area } from "../../http/auth.ts";
import { describe } from "../../http/openapi.ts";
import { type EmbeddingList, EmbeddingRequest } from "../../lib/chat/embedding.ts";
import { later } from "../../lib/schema.ts";
import { recordRefusals } from "../serving/deployments/chat/refusals.ts";
import { callModel, parsedAs } from "./call_model.ts";

const MAX_INPUTS = 2_048;

const FeatureRequest = z
  .object({ inputs: z.union([z.string(), z.array(z.string()).min(1).max(MAX_INPUTS)]) })
  .meta({ id: "HuggingFaceFeatureRequest" });

const Vector = z.array(z.number());
const Features = later(() =>
  z.union([Vector, z.array(Vector)]).describe("One vector of length 1, or one for each text of a list"),
);

export const routes = (ctx: Ctx) => {
  recordRefusals(ctx);
  const { authed, takes } = area(ctx, "inference");
  return new Elysia({ tags: ["Clients"] }).use(authed).post(
    "/models/:model/pipeline/feature-extraction",
    async ({ body: { inputs }, params: { model }, ...caller }) => {
      const request = parsedAs(EmbeddingRequest, { model, input: inputs });
      const { response } = await callModel(ctx, caller, "/embeddings", request);
      if (!response.ok) return response;
      const { data } = (await response.json()) as EmbeddingList;
      const vectors = data.map(({ embedding }) => embedding);
      return typeof inputs === "string" ? vectors[0] : vectors;
    },
    {
      ...takes(FeatureRequest, { kind: "chat" }),
      detail: describe("Embed texts, in the format of Hugging Face", { 200: Features }),
    },
  );
};
