import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { describe } from "../../../http/openapi.ts";
import { nameIgnored } from "../ignored.ts";
import { Empty, Progress } from "./answers.ts";
import { ollamaArea } from "./area.ts";
import * as manage from "./manage.ts";
import { jsonLine, NDJSON_HEADERS, progressResponse } from "./ndjson.ts";
import { push } from "./push.ts";
import { modelOf, OllamaCopy, OllamaCreate, OllamaDelete, OllamaPull, OllamaPush, OPTIONS } from "./schema.ts";

export const manageRoutes = (ctx: Ctx) => {
  const { authed, takes } = ollamaArea(ctx);
  return new Elysia({ prefix: "/api", tags: ["Clients"] })
    .use(authed)
    .post(
      "/pull",
      ({ body, ...caller }) => progressResponse(ctx, caller, manage.pull(ctx, caller, modelOf(body)), body.stream),
      {
        ...takes(OllamaPull),
        detail: describe(
          "Download a model and deploy it, as Ollama pulls one",
          { 200: Progress },
          { description: "The answer is application/x-ndjson, unless stream is false." },
        ),
      },
    )
    .post(
      "/create",
      async ({ body, ...caller }) => {
        nameIgnored(caller.request, "parameters", body.parameters, OPTIONS);
        await manage.create(ctx, caller, body);
        const done = { status: "success" };
        return body.stream ? new Response(jsonLine(done), { headers: NDJSON_HEADERS }) : done;
      },
      {
        ...takes(OllamaCreate),
        detail: describe(
          "Create a deployment or an agent from a model, as Ollama creates one",
          { 200: Progress },
          { description: "With system or parameters it is an agent, else a deployment, also of an adapter." },
        ),
      },
    )
    .post(
      "/copy",
      async ({ body, ...caller }) => {
        await manage.copy(ctx, caller, body.source, body.destination);
        return {};
      },
      { ...takes(OllamaCopy), detail: describe("Deploy a model under a second name", { 200: Empty }) },
    )
    .delete(
      "/delete",
      ({ body, ...caller }) => {
        manage.remove(ctx, caller, modelOf(body));
        return {};
      },
      {
        ...takes(OllamaDelete),
        detail: describe(
          "Stop a deployment or delete an agent, as Ollama deletes a model",
          { 200: Empty },
          { description: "The file of the model stays: `verk models delete` removes it." },
        ),
      },
    );
};

/** A push publishes, so a key for inference alone is not enough. */
export const pushRoutes = (ctx: Ctx) => {
  const { authed, takes } = ollamaArea(ctx, "training");
  return new Elysia({ prefix: "/api", tags: ["Clients"] })
    .use(authed)
    .post(
      "/push",
      ({ body, ...caller }) => progressResponse(ctx, caller, push(ctx, caller, modelOf(body)), body.stream),
      {
        ...takes(OllamaPush),
        detail: describe(
          "Push a model to the hub, as Ollama pushes one",
          { 200: Progress },
          {
            description:
              "The name of the model, owner/name, is the repository. The answer is application/x-ndjson, unless stream is false.",
          },
        ),
      },
    );
};
