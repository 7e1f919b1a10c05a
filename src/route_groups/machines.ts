import type { Routes } from "../http/route_groups.ts";
import { routes as clouds } from "../resources/machines/clouds/routes.ts";
import { routes as gpu } from "../resources/machines/gpu/routes.ts";
import { routes as regions } from "../resources/machines/regions/routes.ts";
import { routes as sessions } from "../resources/machines/sessions/routes.ts";

export const group: readonly Routes[] = [sessions, regions, clouds, gpu];
