/** A route as the router knows it: `/v1/jobs/:id`, `/files/*`. */
export type RoutePattern = { method: string; path: string };
export type Named = { route: string; params: Record<string, string> };

type Candidate = { parts: string[]; isOpen: boolean; fixed: number; route: string };

/**
 * Finds the route of a path and the values of its parameters: `/v1/jobs/{id}` and `{ id: "job_1" }`. The most literal
 * route wins, as in the router. Undefined: no route matches.
 */
export function routeNames(patterns: readonly RoutePattern[]): (method: string, path: string) => Named | undefined {
  const byMethod = new Map<string, Candidate[]>();
  for (const { method, path } of patterns) {
    const parts = path.split("/");
    const fixed = parts.filter((part) => part !== "*" && !part.startsWith(":")).length;
    const route = path.replaceAll(/:(\w+)/g, "{$1}").replace("/*", "/{path}");
    const routes = byMethod.get(method) ?? [];
    routes.push({ parts, isOpen: parts.at(-1) === "*", fixed, route });
    byMethod.set(method, routes);
  }
  for (const routes of byMethod.values()) routes.sort((a, b) => b.fixed - a.fixed);
  return (method, path) => {
    const segments = path.split("/");
    const match = byMethod.get(method)?.find((each) => fits(each, segments));
    return match && { route: match.route, params: paramsOf(match, segments) };
  };
}

/** True if the path matches the route. Example: `/v1/jobs/:id` matches `/v1/jobs/job_1`. */
export function isOfRoute(route: string, path: string): boolean {
  const parts = route.split("/");
  return fits({ parts, isOpen: parts.at(-1) === "*", fixed: 0, route }, path.split("/"));
}

function fits({ parts, isOpen }: Candidate, segments: readonly string[]): boolean {
  if (isOpen ? segments.length < parts.length : segments.length !== parts.length) return false;
  return parts.every((part, i) => part === "*" || (part.startsWith(":") ? segments[i] !== "" : part === segments[i]));
}

function paramsOf({ parts }: Candidate, segments: readonly string[]): Record<string, string> {
  const params: Record<string, string> = {};
  for (const [i, part] of parts.entries()) {
    if (part === "*") params["path"] = decoded(segments.slice(i).join("/"));
    else if (part.startsWith(":")) params[part.slice(1)] = decoded(segments[i] ?? "");
  }
  return params;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // cut in the middle of a character
  }
}
