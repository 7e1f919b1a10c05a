/** Conversations in a model's chat template. A template is code of the file's author, so a confined process runs it. */
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { ChatMessage, Tool } from "../../../lib/chat/messages.ts";
import { AppError } from "../../../lib/errors.ts";
import { later } from "../../../lib/schema.ts";
import { SECOND_MS } from "../../../lib/units.ts";
import type { Grants, Worker } from "../../../platform/workers/types.ts";
import { FromTrainer, type InspectTask, type TemplateTask, type ToTrainer } from "../../../workers/protocol_trainer.ts";
import * as models from "./service.ts";
import type { ModelRow } from "./table.ts";

const MAX_CONVERSATIONS = 16;
const MAX_MESSAGES = 1_000;
const MAX_TOOLS = 128;
/** A vocabulary loads in seconds even from a slow disk. */
const LONGEST_MS = 30 * SECOND_MS;

export const RenderTemplate = z
  .object({
    conversations: z
      .array(
        z.object({
          messages: z.array(ChatMessage).min(1).max(MAX_MESSAGES),
          tools: z.array(Tool).max(MAX_TOOLS).default([]).describe("As in a chat request"),
          add_generation_prompt: z
            .boolean()
            .default(true)
            .describe("true: the text ends where the answer begins, as in a chat request"),
        }),
      )
      .min(1)
      .max(MAX_CONVERSATIONS),
  })
  .meta({ id: "RenderTemplate" });
export type RenderTemplate = z.output<typeof RenderTemplate>;

export const RenderedTemplate = later(() =>
  z
    .object({
      object: z.literal("model.template"),
      model: z.string().describe("The name of the model whose template it is"),
      conversations: z
        .array(
          z.object({
            text: z.string().nullable().describe("The text that the model reads"),
            tokens: z.int().nullable(),
            error: z.string().nullable().describe("The reason why the template rejects this conversation, else null"),
          }),
        )
        .describe("In the order of the request"),
    })
    .meta({ id: "RenderedTemplate" }),
);
export type RenderedTemplate = z.infer<typeof RenderedTemplate>;

type Caller = { workspaceId: string; signal: AbortSignal };

export async function renderTemplate(
  ctx: Ctx,
  caller: Caller,
  id: string,
  { conversations }: RenderTemplate,
): Promise<RenderedTemplate> {
  const model = withTemplate(ctx, caller.workspaceId, id);
  const inputs = conversations.map(({ messages, tools, add_generation_prompt: open }) => ({ messages, tools, open }));
  const task: TemplateTask = {
    type: "template",
    data_dir: ctx.config.data_dir,
    model_path: models.pathOf(ctx, model),
    conversations: inputs,
  };
  const results = await runWithVocabulary(ctx, caller, { task }, (message) =>
    message.type === "rendered" ? message.results : undefined,
  );
  return { object: "model.template", model: model.name, conversations: results };
}

/** The model with a file. An adapter has no template of its own: the one of its base model counts. */
export function withTemplate(ctx: Ctx, workspaceId: string, id: string, param = "id"): ModelRow {
  const named = models.find(ctx, workspaceId, id);
  if (!named)
    throw new AppError("resource_not_found", `No model ${id.slice(0, 120)}: GET /v1/models?registry=true lists them`, {
      param,
    });
  const model = named.shape?.type === "adapter" ? models.baseOf(ctx, workspaceId, named) : named;
  if (!model)
    throw new AppError("unsupported_state", `The base model of ${named.name} is not on this server`, { param });
  const use = models.usability(ctx, model);
  if (!("ready" in use)) throw new AppError("unsupported_state", `The model ${model.name} ${use.reason}`, { param });
  return use.ready;
}

type Work = { task: TemplateTask | InspectTask; grants?: Grants; longestMs?: number };

/** Runs a task of the trainer that needs the vocabulary of a model alone. `read` returns the answer in its message. */
export async function runWithVocabulary<T>(
  ctx: Ctx,
  caller: Caller,
  { task, grants = {}, longestMs = LONGEST_MS }: Work,
  read: (message: FromTrainer) => T | undefined,
): Promise<T> {
  const release = await ctx.state.models.templates.acquire(caller, { timeout: { clock: ctx.clock, ms: LONGEST_MS } });
  if (!release)
    throw new AppError("no_capacity", "Too many templates are being rendered: try again", { retryAfterSeconds: 5 });
  const { signal } = caller;
  const done = Promise.withResolvers<T>();
  const worker: Worker<FromTrainer, ToTrainer> = ctx.supervisor.spawn<FromTrainer, ToTrainer>({
    kind: "trainer",
    incoming: FromTrainer,
    grants: { ...grants, reads: [task.model_path, ...(grants.reads ?? [])] },
    extraEnv: { CUDA_VISIBLE_DEVICES: "" },
    onMessage(message) {
      const answer = read(message);
      if (answer !== undefined) done.resolve(answer);
    },
    onExit: ({ message }) =>
      done.reject(new AppError("worker_failed", `The template was not rendered: ${message}`, { param: "id" })),
  });
  const leave = () => done.reject(signal.reason);
  signal.addEventListener("abort", leave, { once: true });
  const late = setTimeout(() => void worker.stop("the template took too long"), longestMs);
  try {
    signal.throwIfAborted();
    worker.ready.then(
      () => worker.send(task),
      () => {}, // onExit reports the end
    );
    return await done.promise;
  } finally {
    clearTimeout(late);
    signal.removeEventListener("abort", leave);
    await worker.stop("the template is rendered");
    release();
  }
}
