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
import { routes as oidc } from "./resources/people/oidc/routes.ts";
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
];

/** Every route of the server. */
export const mount = (ctx: Ctx) => (app: AnyElysia) =>
  ALL.reduce<AnyElysia>((mounted, routes) => mounted.use(routes(ctx) as AnyElysia), app);
