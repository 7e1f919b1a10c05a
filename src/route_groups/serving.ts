import type { Routes } from "../http/route_groups.ts";
import { routes as completions } from "../resources/other_apis/completions/routes.ts";
import { routes as llama } from "../resources/other_apis/llama/routes.ts";
import { routes as agents } from "../resources/serving/agents/routes.ts";
import { routes as deployments } from "../resources/serving/deployments/routes.ts";
import { routes as models } from "../resources/serving/models/routes.ts";
import { routes as rollouts } from "../resources/serving/rollouts/routes.ts";
import { routes as pushes, modelRoutes as pushModel } from "../resources/training/hub_pushes/routes.ts";

export const group: readonly Routes[] = [llama, completions, models, pushModel, pushes, deployments, agents, rollouts];
