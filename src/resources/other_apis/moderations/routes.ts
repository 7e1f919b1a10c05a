/** /v1/moderations in the format of OpenAI: the opinion of a deployment, asked about each category. */
import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { keepOpen } from "../../../http/connection.ts";
import { describe } from "../../../http/openapi.ts";
import type { ChatCompletion } from "../../../lib/chat/chat_completion.ts";
import { AppError } from "../../../lib/errors.ts";
import { later } from "../../../lib/schema.ts";
import { resolveModel } from "../../serving/agents/apply.ts";
import { isServedName } from "../../serving/deployments/served.ts";
import { type Caller, chat, chatBody } from "../call_model.ts";
import { CATEGORIES, type CategoryName, questionAbout, SYSTEM, shareOfYes } from "./categories.ts";

const MOST_TEXTS = 32;
const MOST_PARTS = 16;
const FLAGGED = 0.5;
const AT_ONCE = 4; // questions about one input; the deployment decides how many of them run
const TOP = 20;

const TextPart = z.object({ type: z.literal("text"), text: z.string() });
const ImagePart = z.object({ type: z.literal("image_url"), image_url: z.object({ url: z.string() }) });
type Part = z.output<typeof TextPart> | z.output<typeof ImagePart>;

const ModerationRequest = later(() =>
  z
    .object({
      model: z.string().max(200).optional().describe("A deployment or an agent of this server"),
      input: z.union([
        z.string(),
        z.array(z.string()).min(1).max(MOST_TEXTS),
        z
          .array(z.discriminatedUnion("type", [TextPart, ImagePart]))
          .min(1)
          .max(MOST_PARTS),
      ]),
    })
    .meta({ id: "ModerationRequest" }),
);

const each = <T extends z.ZodType>(value: T) =>
  z.object(Object.fromEntries(CATEGORIES.map(({ name }) => [name, value])) as Record<CategoryName, T>);
const Moderations = later(() =>
  z
    .object({
      id: z.string(),
      model: z.string(),
      results: z.array(
        z.object({
          flagged: z.boolean().describe("A category is"),
          categories: each(z.boolean()).describe(`True from a score of ${FLAGGED} on`),
          category_scores: each(z.number().min(0).max(1)).describe("The share of yes among yes and no"),
          category_applied_input_types: each(z.array(z.enum(["text", "image"]))),
        }),
      ),
    })
    .meta({ id: "Moderations" }),
);

const OF_OPENAI = /^(?:omni|text)-moderation-/;

function modelFor(ctx: Ctx, { principal: { workspaceId } }: Caller, model: string | undefined): string {
  if (model !== undefined && (!OF_OPENAI.test(model) || isServedName(ctx, workspaceId, model))) {
    resolveModel(ctx, workspaceId, model); // throws if there is none
    return model;
  }
  const message = `model: ${model === undefined ? "is missing" : `${model.slice(0, 100)} is not served here`}. No model that moderates texts is built in: name a deployment, whose opinion is the answer`;
  throw new AppError("resource_not_found", message, { param: "/model" });
}

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "inference");

  /** The score of one category, or the answer that refuses the request. */
  async function scoreOf(caller: Caller, model: string, parts: readonly Part[], words: string) {
    const content = [...parts, { type: "text" as const, text: questionAbout(words) }];
    const body = chatBody(ctx, caller, {
      model,
      messages: [
        { role: "system", content: SYSTEM },
        { role: "user", content },
      ],
      max_tokens: 1,
      temperature: 0,
      logprobs: true,
      top_logprobs: TOP,
      structured_outputs: { choice: ["yes", "no"] },
      reasoning_effort: "none",
      reasoning_format: "none",
    });
    const response = await chat(ctx, caller, body);
    if (!response.ok) return response;
    const { choices } = (await response.json()) as ChatCompletion;
    const first = choices[0]?.logprobs?.content?.[0];
    const share = first && shareOfYes(first);
    if (share !== undefined) return share;
    throw new AppError("worker_failed", `${model} answered neither yes nor no: use another model`);
  }

  async function moderate(caller: Caller, model: string, parts: readonly Part[]) {
    const scores = new Map<string, number>();
    for (let at = 0; at < CATEGORIES.length; at += AT_ONCE) {
      const some = CATEGORIES.slice(at, at + AT_ONCE);
      const answers = await Promise.all(some.map(({ words }) => scoreOf(caller, model, parts, words)));
      for (const [i, answer] of answers.entries()) {
        if (answer instanceof Response) return answer;
        scores.set(some[i]?.name ?? "", answer);
      }
    }
    return resultOf(scores, parts);
  }

  return new Elysia({ prefix: "/v1/moderations", tags: ["Clients"] }).use(authed).post(
    "",
    async ({ body, request, principal }) => {
      const caller = { request, principal };
      const model = modelFor(ctx, caller, body.model);
      keepOpen(ctx, request);
      const results: ReturnType<typeof resultOf>[] = [];
      for (const parts of partsOf(body.input)) {
        const result = await moderate(caller, model, parts);
        if (result instanceof Response) return result;
        results.push(result);
      }
      return { id: `modr-${crypto.randomUUID()}`, model, results };
    },
    {
      ...takes(ModerationRequest, { kind: "chat" }),
      detail: describe(
        "Ask a deployment about each category of OpenAI's moderations",
        { 200: Moderations },
        { description: "The opinion of that model, and no more. Each category of each input is one short request." },
      ),
    },
  );
};

/** Texts are inputs of their own. Parts are one input. */
function partsOf(input: string | readonly (string | Part)[]): Part[][] {
  const list = typeof input === "string" ? [input] : input;
  const texts = list.filter((item) => typeof item === "string");
  if (texts.length > 0) return texts.map((text) => [{ type: "text" as const, text }]);
  return [list as Part[]];
}

function resultOf(scores: ReadonlyMap<string, number>, parts: readonly Part[]) {
  const kinds = (["text", "image"] as const).filter((kind) => parts.some(({ type }) => type.startsWith(kind)));
  const of = <T>(value: (category: (typeof CATEGORIES)[number]) => T) =>
    Object.fromEntries(CATEGORIES.map((category) => [category.name, value(category)])) as Record<CategoryName, T>;
  const categories = of(({ name }) => (scores.get(name) ?? 0) >= FLAGGED);
  return {
    flagged: Object.values(categories).includes(true),
    categories,
    category_scores: of(({ name }) => scores.get(name) ?? 0),
    category_applied_input_types: of((category) => kinds.filter((kind) => kind === "text" || "sees" in category)),
  };
}
