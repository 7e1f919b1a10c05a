import type { Routes } from "../http/route_groups.ts";
import { routes as connected } from "../resources/data/datasets/connected/routes.ts";
import { routes as datasets } from "../resources/data/datasets/routes.ts";
import { routes as volumes } from "../resources/data/volumes/routes.ts";

export const group: readonly Routes[] = [volumes, connected, datasets];
