/**
 * Counts every answer by route pattern, method, status class and workspace, and measures the time until it began. A
 * stream goes on after that.
 */
import type { Ctx } from "../context.ts";
import { pathOf } from "../lib/net/request_target.ts";
import { type RoutePattern, routeNames } from "../lib/route_names.ts";
import { counter, histogram, MOST_SERIES, observe, type Series } from "../platform/metrics.ts";
import { type RequestState, stateOf } from "./request_state.ts";

const requests = counter("verk_http_requests_total", "HTTP requests answered, by the class of their status", [
  "route",
  "method",
  "status",
]);
const durations = histogram(
  "verk_http_request_duration_seconds",
  "Time until an answer begins, which for a stream is its first part",
  ["route", "method"],
  [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60],
);

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const CLASSES = ["", "1xx", "2xx", "3xx", "4xx", "5xx"];

/** The series of one route and workspace, looked up once. */
type Cell = { duration: Series; byClass: (Series | undefined)[]; name: readonly [route: string, method: string] };

export type Meter = {
  /** Counts an answer. */
  count: (request: Request, status: number) => void;
  /** The request by its route, as `GET /v1/jobs/{id}`. */
  nameOf: (request: Request) => string;
};

/** `routesAt`: the routes that are loaded for a path. */
export function createMeter({ db }: Pick<Ctx, "db">, routesAt: (path: string) => readonly RoutePattern[]): Meter {
  const cells = new Map<string, Map<string, Cell>>();
  let count = 0;
  const templates = new WeakMap<readonly RoutePattern[], Templates>();

  function begin(workspaceId: string, key: string, name: Cell["name"]): Cell {
    if (++count > MOST_SERIES) {
      cells.clear(); // they are looked up again
      count = 1;
    }
    const cell: Cell = { duration: durations.at(db, workspaceId, name), byClass: [], name };
    const ofWorkspace = cells.get(workspaceId) ?? new Map<string, Cell>();
    cells.set(workspaceId, ofWorkspace.set(key, cell));
    return cell;
  }
  function patternOf(request: Request, { route }: RequestState): string {
    if (route !== undefined) return route;
    const path = pathOf(request);
    const routes = routesAt(path);
    const named = templates.get(routes) ?? templatesOf(routes);
    templates.set(routes, named);
    return named(request.method, path);
  }
  function cellOf(request: Request, state: RequestState, workspaceId: string): Cell {
    const { method } = request;
    const shown = patternOf(request, state);
    const shownMethod = METHODS.includes(method) ? method : "other";
    const key = shownMethod === "GET" ? shown : `${shownMethod} ${shown}`;
    return cells.get(workspaceId)?.get(key) ?? begin(workspaceId, key, [templateOf(shown), shownMethod]);
  }
  const countAnswer: Meter["count"] = (request, status) => {
    const state = stateOf(request);
    const workspaceId = state.principal?.workspaceId ?? "";
    const cell = cellOf(request, state, workspaceId);
    const kind = Math.min(5, Math.floor(status / 100));
    cell.byClass[kind] ??= requests.at(db, workspaceId, [...cell.name, CLASSES[kind] ?? ""]);
    const { counted } = cell.byClass[kind];
    counted[0] = (counted[0] as number) + 1;
    observe(cell.duration, (performance.now() - state.startedAt) / 1000);
  };
  return {
    count: countAnswer,
    nameOf: (request) => `${request.method} ${templateOf(patternOf(request, stateOf(request)))}`,
  };
}

const NONE = "none";
type Templates = (method: string, path: string) => string;

/** For requests without a key: most of their paths have no parameters. */
function templatesOf(routes: readonly RoutePattern[]): Templates {
  const plain = new Set(routes.filter(({ path }) => !/[:*]/.test(path)).map(({ method, path }) => `${method} ${path}`));
  const named = routeNames(routes);
  return (method, path) => {
    const routed = method === "HEAD" ? "GET" : method;
    return plain.has(`${routed} ${path}`) ? path : (named(routed, path)?.route ?? NONE);
  };
}

const templateOf = (route: string) => route.replaceAll(/:(\w+)/g, "{$1}").replace("/*", "/{path}");
