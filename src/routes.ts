import type { AnyElysia } from "elysia";
import type { Ctx } from "./context.ts";
import { fallback } from "./http/fallback.ts";
import { routes as account } from "./resources/access/account/routes.ts";
import { routes as apiKeys } from "./resources/access/api_keys/routes.ts";
import { routes as audit } from "./resources/access/audit/routes.ts";
import { routes as browserSessions } from "./resources/access/browser_sessions/routes.ts";
import { routes as invitations } from "./resources/access/people/invitations/routes.ts";
import { routes as me } from "./resources/access/people/me/routes.ts";
import { routes as oidc } from "./resources/access/people/oidc/routes.ts";
import { routes as users } from "./resources/access/people/routes.ts";
import { routes as signIn } from "./resources/access/people/sign_in/routes.ts";
import { routes as secrets } from "./resources/access/secrets/routes.ts";
import { routes as setup } from "./resources/access/setup/routes.ts";
import { routes as sshKeys } from "./resources/access/ssh_keys/routes.ts";
import { routes as workspaces } from "./resources/access/workspaces/routes.ts";
import { routes as connectedDatasets } from "./resources/data/datasets/connected/routes.ts";
import { routes as datasets } from "./resources/data/datasets/routes.ts";
import { routes as volumes } from "./resources/data/volumes/routes.ts";
import { routes as detection } from "./resources/detection/routes.ts";
import { routes as gpu } from "./resources/machines/gpu/routes.ts";
import { routes as regions } from "./resources/machines/regions/routes.ts";
import { routes as sessions } from "./resources/machines/sessions/routes.ts";
import { routes as billing, grantRoutes } from "./resources/money/billing/routes.ts";
import { routes as cost } from "./resources/money/cost/routes.ts";
import { routes as inferenceBatches } from "./resources/other_apis/batches/routes.ts";
import { routes as evals } from "./resources/other_apis/evals/routes.ts";
import { routes as files } from "./resources/other_apis/files/routes.ts";
import { routes as fineTuning } from "./resources/other_apis/fine_tuning/routes.ts";
import { routes as llamaClients } from "./resources/other_apis/llama/routes.ts";
import { routes as lmStudio } from "./resources/other_apis/lm_studio.ts";
import { routes as messages } from "./resources/other_apis/messages/routes.ts";
import { manageRoutes as ollamaModels } from "./resources/other_apis/ollama/manage_routes.ts";
import { routes as ollama } from "./resources/other_apis/ollama/routes.ts";
import { routes as rerank } from "./resources/other_apis/rerank.ts";
import { routes as responses } from "./resources/other_apis/responses/routes.ts";
import { routes as annotationQueues } from "./resources/quality/annotation_queues/routes.ts";
import { workRoutes as annotationWork } from "./resources/quality/annotation_queues/work/routes.ts";
import { routes as evaluators } from "./resources/quality/evaluators/routes.ts";
import { routes as experiments } from "./resources/quality/experiments/routes.ts";
import { routes as dashboard } from "./resources/server/dashboard/routes.ts";
import { pageFor } from "./resources/server/dashboard/service.ts";
import { routes as docs } from "./resources/server/docs/routes.ts";
import { routes as settings } from "./resources/server/settings/routes.ts";
import { checkRoutes, routes as system } from "./resources/server/system/routes.ts";
import { routes as agents } from "./resources/serving/agents/routes.ts";
import { routes as deployments } from "./resources/serving/deployments/routes.ts";
import { routes as models } from "./resources/serving/models/routes.ts";
import { routes as codeArtifacts } from "./resources/training/code_artifacts/routes.ts";
import { routes as publicRuns } from "./resources/training/public_runs/routes.ts";
import { routes as rewardFunctions } from "./resources/training/reward_functions/routes.ts";
import { routes as tracker } from "./resources/training/tracker/routes.ts";
import { modelRoutes as trainingModels } from "./resources/training/training_jobs/artifacts/routes.ts";
import { logRoutes as trainingLogs } from "./resources/training/training_jobs/logs/routes.ts";
import { routes as trainingJobs } from "./resources/training/training_jobs/routes.ts";
import { routes as events } from "./resources/watching/events/routes.ts";
import { routes as metrics } from "./resources/watching/metrics/routes.ts";
import { routes as monitors } from "./resources/watching/monitors/routes.ts";
import { routes as traces } from "./resources/watching/traces/routes.ts";
import { routes as webhooks } from "./resources/watching/webhooks/routes.ts";

/** The routes of the port for detection alone. */
export const mountDetection = (ctx: Ctx) => (app: AnyElysia) =>
  app.use(system(ctx)).use(detection(ctx)).use(fallback(ctx));

/** A list, not a chain: each link of a chain deepens its type, and the compiler has a limit. */
type Plugin = AnyElysia | ((app: AnyElysia) => AnyElysia);
const ALL: readonly ((ctx: Ctx) => Plugin)[] = [
  llamaClients,
  messages,
  responses,
  files,
  inferenceBatches,
  fineTuning,
  evals,
  ollama,
  ollamaModels,
  lmStudio,
  rerank,
  system,
  checkRoutes,
  setup,
  docs,
  dashboard,
  workspaces,
  account,
  audit,
  apiKeys,
  browserSessions,
  signIn,
  oidc,
  users,
  me,
  invitations,
  sshKeys,
  secrets,
  settings,
  tracker,
  models,
  volumes,
  codeArtifacts,
  rewardFunctions,
  evaluators,
  sessions,
  regions,
  connectedDatasets,
  datasets,
  annotationQueues,
  annotationWork,
  deployments,
  traces,
  agents,
  monitors,
  trainingJobs,
  experiments,
  publicRuns,
  trainingLogs,
  trainingModels,
  gpu,
  detection,
  billing,
  grantRoutes,
  cost,
  metrics,
  webhooks,
  events,
  (ctx) => fallback(ctx, pageFor(ctx)),
];

/** Every route of the server. */
export const mount = (ctx: Ctx) => (app: AnyElysia) =>
  ALL.reduce<AnyElysia>((mounted, routes) => mounted.use(routes(ctx) as AnyElysia), app);
