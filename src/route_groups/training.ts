import type { Routes } from "../http/route_groups.ts";
import { routes as codeArtifacts } from "../resources/training/code_artifacts/routes.ts";
import { routes as publicRuns } from "../resources/training/public_runs/routes.ts";
import { routes as rewardFunctions } from "../resources/training/reward_functions/routes.ts";
import { modelRoutes as trainedModels } from "../resources/training/training_jobs/artifacts/routes.ts";
import { logRoutes as logs } from "../resources/training/training_jobs/logs/routes.ts";
import { routes as trainingJobs } from "../resources/training/training_jobs/routes.ts";

export const group: readonly Routes[] = [codeArtifacts, rewardFunctions, trainingJobs, publicRuns, logs, trainedModels];
