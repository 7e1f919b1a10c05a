/** The routes of the server by the first words of their paths. A group is loaded with its first request. */
import type { Ctx } from "./context.ts";
import { errorResponse } from "./http/answer/errors.ts";
import { serviceErrorResponse } from "./http/answer/service_errors.ts";
import type { Port, RouteGroup } from "./http/route_groups.ts";
import { routes as setup } from "./resources/access/setup/routes.ts";
import { routes as dashboard } from "./resources/server/dashboard/routes.ts";
import { pageFor } from "./resources/server/dashboard/service.ts";
import { routes as docs } from "./resources/server/docs/routes.ts";
import { checkRoutes, routes as system } from "./resources/server/system/routes.ts";

const under = (start: string, ...words: string[]) => words.map((word) => `${start}${word}`);
const v1 = (...words: string[]) => under("/v1/", ...words);

const ACCOUNTS = ["workspaces", "account", "api_keys", "browser_sessions", "logins", "users", "me", "invitations"];
const OF_LLAMA = [
  "completion",
  "infill",
  "tokenize",
  "detokenize",
  "apply-template",
  "props",
  "slots",
  "lora-adapters",
];

const OF_OTHERS = [
  "messages",
  "responses",
  "conversations",
  "files",
  "uploads",
  "batches",
  "fine_tuning",
  "evals",
  "containers",
  "moderations",
  "vector_stores",
  "rerank",
];

const GROUPS: readonly RouteGroup[] = [
  { at: [], load: () => [system, checkRoutes, setup, docs, dashboard] },
  {
    at: [...v1(...OF_OTHERS), "/v1beta", "/models"],
    load: async () => (await import("./route_groups/other_apis.ts")).group,
  },
  {
    at: v1(...ACCOUNTS, "ssh_keys", "secrets"),
    load: async () => (await import("./route_groups/access.ts")).group,
  },
  {
    at: v1("settings"),
    load: async () => {
      const settings = await import("./resources/server/settings/routes.ts");
      const tracker = await import("./resources/training/tracker/routes.ts");
      return [settings.routes, tracker.routes];
    },
  },
  { at: v1("volumes", "datasets"), load: async () => (await import("./route_groups/data.ts")).group },
  {
    at: v1("code_artifacts", "reward_functions", "training_jobs", "public"),
    load: async () => (await import("./route_groups/training.ts")).group,
  },
  {
    at: v1("evaluators", "annotation_queues", "experiments"),
    load: async () => (await import("./route_groups/quality.ts")).group,
  },
  {
    at: v1("sessions", "regions", "machines", "gpu"),
    load: async () => (await import("./route_groups/machines.ts")).group,
  },
  {
    at: [
      ...v1("models", "deployments", "chat", "completions", "embeddings", "agents", "rollouts", "hub_pushes"),
      ...under("/", ...OF_LLAMA),
    ],
    load: async () => (await import("./route_groups/serving.ts")).group,
  },
  {
    at: v1("traces", "otlp", "monitors", "metrics", "webhooks", "events"),
    load: async () => (await import("./route_groups/watching.ts")).group,
  },
  {
    at: ["/api", ...v1("detect", "config")],
    load: async () => {
      const detection = await import("./resources/detection/routes.ts");
      const ollama = await import("./resources/other_apis/ollama/routes.ts");
      const { manageRoutes, pushRoutes } = await import("./resources/other_apis/ollama/manage_routes.ts");
      const lmStudio = await import("./resources/other_apis/lm_studio.ts");
      return [ollama.routes, manageRoutes, pushRoutes, lmStudio.routes, detection.routes];
    },
  },
  { at: v1("billing", "cost"), load: async () => (await import("./route_groups/money.ts")).group },
];

/** The port of everything. */
export const mainPort = (ctx: Ctx): Port => ({ groups: GROUPS, answers: errorResponse, pageFor: pageFor(ctx) });

/** The port of detection alone. */
export const DETECTION_PORT: Port = {
  groups: [{ at: [], load: async () => [system, (await import("./resources/detection/routes.ts")).routes] }],
  answers: serviceErrorResponse,
};
