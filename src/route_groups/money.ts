import type { Routes } from "../http/route_groups.ts";
import { routes as billing, grantRoutes as grants } from "../resources/money/billing/routes.ts";
import { routes as cost } from "../resources/money/cost/routes.ts";

export const group: readonly Routes[] = [billing, grants, cost];
