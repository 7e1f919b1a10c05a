import type { Routes } from "../http/route_groups.ts";
import { routes as annotationQueues } from "../resources/quality/annotation_queues/routes.ts";
import { workRoutes as annotationWork } from "../resources/quality/annotation_queues/work/routes.ts";
import { routes as evaluators } from "../resources/quality/evaluators/routes.ts";
import { routes as experiments } from "../resources/quality/experiments/routes.ts";

export const group: readonly Routes[] = [evaluators, annotationQueues, annotationWork, experiments];
