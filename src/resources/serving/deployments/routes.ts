import { and, eq, sql } from "drizzle-orm";
import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx, Principal } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { creates } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks, MOST_IDS, named } from "../../../http/query.ts";
import { stateOf } from "../../../http/request_state.ts";
import { ChatCompletion, ChatCompletionRequest } from "../../../lib/chat/chat_completion.ts";
import { Completion, CompletionRequest } from "../../../lib/chat/completion.ts";
import { EmbeddingList, EmbeddingRequest } from "../../../lib/chat/embedding.ts";
import { STATUSES } from "../../../lib/deployment_status.ts";
import { AppError } from "../../../lib/errors.ts";
import { Deleted, isoOrNull } from "../../../lib/schema.ts";
import { runTime } from "../../money/billing/run_time.ts";
import { storing } from "../../other_apis/completions/storing.ts";
import { bringCheckpoint } from "../../training/training_jobs/artifacts/job_models.ts";
import { resolveModel, withAgent } from "../agents/apply.ts";
import { withServers } from "../agents/tools/run.ts";
import { answer, type HttpCall } from "./chat/answer.ts";
import { listRequests } from "./chat/records.ts";
import { recordRefusals } from "./chat/refusals.ts";
import { withCheckpoint } from "./checkpoint.ts";
import { remove } from "./deletion.ts";
import * as parking from "./parking.ts";
import { hardwareFor } from "./remote/placing.ts";
import {
  CreateDeployment,
  Deployment,
  DeploymentMetrics,
  DeploymentRequest,
  presentMetrics,
  ServedModelList,
  StoppedDeployment,
  UpdateDeployment,
} from "./schema.ts";
import { mustFind } from "./served.ts";
import * as deployments from "./service.ts";
import { type DeploymentRow, deployments as table } from "./table.ts";
import { observing } from "./traffic/routes.ts";

const ListQuery = PageQuery.extend({
  status: z.enum(STATUSES).optional(),
  model: z.string().optional().describe("Only deployments of this training job (its id) or of the model of this name"),
});

export function routes(ctx: Ctx) {
  recordRefusals(ctx);
  return new Elysia()
    .use(managing(ctx))
    .use(observing(ctx, namedDeployments(ctx)))
    .use(inference(ctx))
    .use(byName(ctx));
}

const managing = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "inference");
  return new Elysia({ prefix: "/v1/deployments", tags: ["Deployments"] })
    .use(authed)
    .use(namedDeployments(ctx))
    .post(
      "",
      async ({ request, principal, body, set }) => {
        const hardware = await hardwareFor(ctx, principal.workspaceId, body);
        const input = { ...body, ...(await bringCheckpoint(ctx, principal.workspaceId, body)) };
        return creates(ctx, { request, principal, body, set }, () =>
          deployments.view(ctx, deployments.create(ctx, principal, { input, place: hardware })),
        );
      },
      { ...takes(CreateDeployment), detail: describe("Deploy a model", { 201: Deployment }) },
    )
    .get("", ({ principal, query }) => deployments.list(ctx, principal.workspaceId, query), {
      ...asks(ListQuery),
      detail: describe("List deployments", { 200: listOf(Deployment, "DeploymentList") }),
    })
    .get("/:id", ({ principal, params }) => deployments.view(ctx, deploymentOf(ctx, principal, params.id)), {
      detail: describe("Get a deployment", { 200: Deployment }),
    })
    .patch(
      "/:id",
      async ({ principal, params, body }) =>
        deployments.view(ctx, await deployments.update(ctx, principal, params.id, body)),
      {
        ...takes(UpdateDeployment),
        detail: describe(
          "Change a deployment",
          { 200: Deployment },
          {
            description:
              "A min_replicas above 0 wakes a parked deployment. A new context_length, parallel or kv_type reloads the model; requests wait meanwhile. A new model is loaded beside the present one, which answers until the new one is ready: next_model shows it meanwhile.",
          },
        ),
      },
    )
    .delete(
      "/:id",
      async ({ principal, params }) => {
        const { id } = await remove(ctx, principal.workspaceId, params.id);
        return { id, object: "deployment", deleted: true };
      },
      {
        detail: describe(
          "Delete a stopped or failed deployment",
          { 200: Deleted("deployment").meta({ id: "DeletedDeployment" }) },
          { description: "Also deletes its recorded requests and traces. Its charges stay." },
        ),
      },
    )
    .post(
      "/:id/stop",
      ({ principal, params }) => {
        const { id, status, stoppedAt } = deployments.stop(ctx, principal.workspaceId, params.id);
        return { id, object: "deployment", status, stopped_at: isoOrNull(stoppedAt) };
      },
      { detail: describe("Stop a deployment and release its hardware", { 200: StoppedDeployment }) },
    )
    .post(
      "/:id/start",
      ({ principal, params }) => deployments.view(ctx, deployments.start(ctx, principal, params.id)),
      { detail: describe("Start a stopped or failed deployment", { 200: Deployment }) },
    )
    .post(
      "/:id/park",
      ({ principal, params }) => deployments.view(ctx, parking.park(ctx, principal.workspaceId, params.id)),
      {
        detail: describe("Park a deployment now; the next request wakes it", { 200: Deployment }),
      },
    )
    .post("/:id/wake", ({ principal, params }) => deployments.view(ctx, parking.wake(ctx, principal, params.id)), {
      detail: describe("Wake a parked deployment now", { 200: Deployment }),
    })
    .get(
      "/:id/requests",
      ({ principal, params, query }) => listRequests(ctx, deploymentOf(ctx, principal, params.id), query),
      {
        ...asks(PageQuery),
        detail: describe("List a deployment's requests", { 200: listOf(DeploymentRequest, "DeploymentRequestList") }),
      },
    )
    .get(
      "/:id/metrics",
      ({ principal, params }) => presentMetrics(deploymentOf(ctx, principal, params.id), runTime(ctx, params.id)),
      {
        detail: describe("Get a deployment's metrics", { 200: DeploymentMetrics }),
      },
    );
};

const STREAMS = { description: "With stream: true the answer is text/event-stream and ends with [DONE]." };

/** Each call stands twice: under the path of a deployment, and under /v1 for the deployment that `model` names. */
const CALLS = [
  {
    path: "/chat/completions",
    form: ChatCompletionRequest,
    kind: "chat",
    byId: describe("Chat with a deployment", { 200: ChatCompletion }, STREAMS),
    byName: describe("Chat with the deployment or agent that model names", { 200: ChatCompletion }, STREAMS),
  },
  {
    path: "/completions",
    form: CompletionRequest,
    kind: "tokens",
    byId: describe("Complete a text", { 200: Completion }, STREAMS),
    byName: describe("Complete a text with the deployment that model names", { 200: Completion }, STREAMS),
  },
  {
    path: "/embeddings",
    form: EmbeddingRequest,
    kind: "tokens",
    byId: describe("Embed texts", { 200: EmbeddingList }),
    byName: describe("Embed texts with the deployment that model names", { 200: EmbeddingList }),
  },
] as const;

const inference = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "inference");
  const app = new Elysia({ prefix: "/v1/deployments/:id", tags: ["Deployments"] })
    .use(authed)
    .use(namedDeployments(ctx));
  for (const { path, form, kind, byId: detail } of CALLS)
    app.post(
      path,
      ({ principal, params, body, request }) =>
        infer(
          ctx,
          mustServe(deploymentOf(ctx, principal, params.id), body.model),
          { request, principal },
          { path, body },
        ),
      { ...takes(form, { kind }), detail },
    );
  return app.get("/models", ({ principal, params }) => servedModels(deploymentOf(ctx, principal, params.id)), {
    detail: describe("List the model that a deployment serves", { 200: ServedModelList }),
  });
};

const byName = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "inference");
  const app = new Elysia({ prefix: "/v1", tags: ["Deployments"] }).use(authed);
  const fillFromAgent = (call: { request: Request; body: unknown }) => {
    const { principal } = stateOf(call.request);
    if (principal) call.body = withAgent(ctx, principal.workspaceId, call.body);
  };
  for (const { path, form, kind, byName: detail } of CALLS) {
    const isChat = kind === "chat"; // only a chat may name an agent
    app.post(
      path,
      async ({ principal, body: sent, request }) => {
        const { workspaceId } = principal;
        const body = await withCheckpoint(ctx, workspaceId, sent);
        const { deployment, ...agent } = isChat
          ? resolveModel(ctx, workspaceId, body.model)
          : { deployment: mustFind(ctx, workspaceId, body.model) };
        return infer(ctx, deployment, { request, principal }, { path, body, ...agent });
      },
      { ...takes(form, { kind }), ...(isChat ? { transform: fillFromAgent } : {}), detail },
    );
  }
  return app;
};

const deploymentOf = (ctx: Ctx, { workspaceId }: { workspaceId: string }, id: string) =>
  deployments.mustGet(ctx, workspaceId, id);

const isChat = (path: HttpCall["path"], body: object): body is ChatCompletionRequest =>
  path === "/chat/completions" && "messages" in body;
const isStored = (path: HttpCall["path"], body: object): body is ChatCompletionRequest =>
  isChat(path, body) && body.store === true;

type Caller = { request: Request; principal: Principal };

function infer(ctx: Ctx, row: DeploymentRow, { request, principal }: Caller, call: Omit<HttpCall, "keyId">) {
  const conversationId = request.headers.get("x-conversation-id");
  const { isOfLlama } = stateOf(request);
  const { path, body } = call;
  const whole = { ...call, keyId: principal.keyId, conversationId, isOfLlama };
  const send = (sent: ChatCompletionRequest) =>
    withServers(ctx, { request, principal }, { agentId: call.agentId ?? null, body: sent }, (turn, onTrace) =>
      answer(ctx, row, request, { ...whole, body: turn, onTrace }),
    );
  if (isStored(path, body)) return storing(ctx, { request, principal, body }, send);
  if (call.agentId && isChat(path, body)) return send(body);
  return answer(ctx, row, request, whole, { isLast: true });
}

/** A deployment serves one model, under its own name. */
function mustServe(row: DeploymentRow, model: string | undefined): DeploymentRow {
  const named = model?.startsWith(`${row.name}:`) || model?.startsWith(`${row.id}:`); // with an adapter
  if (model === undefined || model === row.name || model === row.id || named) return row;
  const message = `model: this deployment serves ${JSON.stringify(row.name)}, not ${JSON.stringify(model.slice(0, 100))}: set model to the first`;
  throw new AppError("resource_not_found", message, { param: "/model" });
}

const servedModels = (row: DeploymentRow) => ({
  object: "list" as const,
  data: [
    { id: row.name, object: "model" as const, created: Math.floor(row.createdAt / 1000), owned_by: row.workspaceId },
  ],
});

/** Deployments by name, in the paths of routes. An active one, whose name is its own, comes before ended ones. */
const namedDeployments = ({ db }: Pick<Ctx, "db">) =>
  named("dep", "deployments", (workspaceId, name) => {
    const rows = db
      .select({ id: table.id, isActive: sql<number>`${table.status} NOT IN ('stopped', 'failed')` })
      .from(table)
      .where(and(eq(table.workspaceId, workspaceId), eq(table.name, name)))
      .all();
    const active = rows.filter(({ isActive }) => isActive === 1);
    return (active.length > 0 ? active : rows).slice(0, MOST_IDS);
  });
