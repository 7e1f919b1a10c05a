import type { AnyElysia } from "elysia";
import type { Ctx } from "./context.ts";
import { routes as account } from "./resources/account/routes.ts";
import { routes as agents } from "./resources/agents/routes.ts";
import { routes as annotationQueues } from "./resources/annotation_queues/routes.ts";
import { workRoutes as annotationWork } from "./resources/annotation_queues/work/routes.ts";
import { routes as apiKeys } from "./resources/api_keys/routes.ts";
import { routes as audit } from "./resources/audit/routes.ts";
import { routes as billing, grantRoutes } from "./resources/billing/routes.ts";
import { routes as browserSessions } from "./resources/browser_sessions/routes.ts";
import { routes as inferenceBatches } from "./resources/clients/batches/routes.ts";
import { routes as evals } from "./resources/clients/evals/routes.ts";
import { routes as files } from "./resources/clients/files/routes.ts";
import { routes as fineTuning } from "./resources/clients/fine_tuning/routes.ts";
import { routes as llamaClients } from "./resources/clients/llama/routes.ts";
import { routes as lmStudio } from "./resources/clients/lm_studio.ts";
import { routes as messages } from "./resources/clients/messages/routes.ts";
import { manageRoutes as ollamaModels } from "./resources/clients/ollama/manage_routes.ts";
import { routes as ollama } from "./resources/clients/ollama/routes.ts";
import { routes as rerank } from "./resources/clients/rerank.ts";
import { routes as responses } from "./resources/clients/responses/routes.ts";
import { routes as codeArtifacts } from "./resources/code_artifacts/routes.ts";
import { routes as cost } from "./resources/cost/routes.ts";
import { routes as dashboard } from "./resources/dashboard/routes.ts";
import { routes as connectedDatasets } from "./resources/datasets/connected/routes.ts";
import { routes as datasets } from "./resources/datasets/routes.ts";
import { routes as deployments } from "./resources/deployments/routes.ts";
import { routes as detection } from "./resources/detection/routes.ts";
import { routes as docs } from "./resources/docs/routes.ts";
import { routes as evaluators } from "./resources/evaluators/routes.ts";
import { routes as events } from "./resources/events/routes.ts";
import { routes as experiments } from "./resources/experiments/routes.ts";
import { routes as gpu } from "./resources/gpu/routes.ts";
import { routes as metrics } from "./resources/metrics/routes.ts";
import { routes as models } from "./resources/models/routes.ts";
import { routes as monitors } from "./resources/monitors/routes.ts";
import { routes as invitations } from "./resources/people/invitations/routes.ts";
import { routes as me } from "./resources/people/me/routes.ts";
import { routes as users } from "./resources/people/routes.ts";
import { routes as signIn } from "./resources/people/sign_in/routes.ts";
import { routes as publicRuns } from "./resources/public_runs/routes.ts";
import { routes as regions } from "./resources/regions/routes.ts";
import { routes as rewardFunctions } from "./resources/reward_functions/routes.ts";
import { routes as secrets } from "./resources/secrets/routes.ts";
import { routes as sessions } from "./resources/sessions/routes.ts";
import { routes as settings } from "./resources/settings/routes.ts";
import { routes as setup } from "./resources/setup/routes.ts";
import { routes as sshKeys } from "./resources/ssh_keys/routes.ts";
import { checkRoutes, routes as system } from "./resources/system/routes.ts";
import { routes as traces } from "./resources/traces/routes.ts";
import { routes as tracker } from "./resources/tracker/routes.ts";
import { modelRoutes as trainingModels } from "./resources/training_jobs/artifacts/routes.ts";
import { logRoutes as trainingLogs } from "./resources/training_jobs/logs/routes.ts";
import { routes as trainingJobs } from "./resources/training_jobs/routes.ts";
import { routes as volumes } from "./resources/volumes/routes.ts";
import { routes as webhooks } from "./resources/webhooks/routes.ts";
import { routes as workspaces } from "./resources/workspaces/routes.ts";

/** The routes of the port for detection alone. */
export const mountDetection = (ctx: Ctx) => (app: AnyElysia) => app.use(system(ctx)).use(detection(ctx));

/** Apart from the chain below: each link deepens its type, and the compiler has a limit. */
const personal = (ctx: Ctx) => (app: AnyElysia) =>
  app.use(signIn(ctx)).use(users(ctx)).use(me(ctx)).use(invitations(ctx));
/** The formats of other programs. A list of their own keeps the types of both lists small. */
const mountClients = (ctx: Ctx, app: AnyElysia): AnyElysia =>
  app
    .use(llamaClients(ctx))
    .use(messages(ctx))
    .use(responses(ctx))
    .use(files(ctx))
    .use(inferenceBatches(ctx))
    .use(fineTuning(ctx))
    .use(evals(ctx))
    .use(ollama(ctx))
    .use(ollamaModels(ctx))
    .use(lmStudio(ctx))
    .use(rerank(ctx));

/** Every route of the server. */
export const mount = (ctx: Ctx) => (app: AnyElysia) =>
  mountClients(ctx, app)
    .use(system(ctx))
    .use(checkRoutes(ctx))
    .use(setup(ctx))
    .use(docs(ctx))
    .use(dashboard(ctx))
    .use(workspaces(ctx))
    .use(account(ctx))
    .use(audit(ctx))
    .use(apiKeys(ctx))
    .use(browserSessions(ctx))
    .use(personal(ctx))
    .use(sshKeys(ctx))
    .use(secrets(ctx))
    .use(settings(ctx))
    .use(tracker(ctx))
    .use(models(ctx))
    .use(volumes(ctx))
    .use(codeArtifacts(ctx))
    .use(rewardFunctions(ctx))
    .use(evaluators(ctx))
    .use(sessions(ctx))
    .use(regions(ctx))
    .use(connectedDatasets(ctx))
    .use(datasets(ctx))
    .use(annotationQueues(ctx))
    .use(annotationWork(ctx))
    .use(deployments(ctx))
    .use(traces(ctx))
    .use(agents(ctx))
    .use(monitors(ctx))
    .use(trainingJobs(ctx))
    .use(experiments(ctx))
    .use(publicRuns(ctx))
    .use(trainingLogs(ctx))
    .use(trainingModels(ctx))
    .use(gpu(ctx))
    .use(detection(ctx))
    .use(billing(ctx))
    .use(grantRoutes(ctx))
    .use(cost(ctx))
    .use(metrics(ctx))
    .use(webhooks(ctx))
    .use(events(ctx));
