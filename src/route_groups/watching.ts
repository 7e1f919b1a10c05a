import type { Routes } from "../http/route_groups.ts";
import { routes as events } from "../resources/watching/events/routes.ts";
import { routes as metrics } from "../resources/watching/metrics/routes.ts";
import { routes as monitors } from "../resources/watching/monitors/routes.ts";
import { routes as traces } from "../resources/watching/traces/routes.ts";
import { routes as webhooks } from "../resources/watching/webhooks/routes.ts";

export const group: readonly Routes[] = [traces, monitors, metrics, webhooks, events];
