/** The page of an address: which one it is, with which values, and whether this session may see it. */
import type { PageSpec } from "../pages/spec.ts";

export type Params = Record<string, string>;
type Area = NonNullable<PageSpec["area"]>;

export type View =
  | { is: "missing" }
  /** The key of the session has no scope for `area`: the code of the page is not loaded. */
  | { is: "forbidden"; spec: PageSpec; area: Area }
  | { is: "page"; spec: PageSpec; params: Params };

/** The first pattern that matches wins. */
export function viewOf(address: string, pages: readonly PageSpec[], may: (area: Area) => boolean): View {
  for (const spec of pages) {
    const params = match(spec.path, address);
    if (!params) continue;
    const { area } = spec;
    return area && !may(area) ? { is: "forbidden", spec, area } : { is: "page", spec, params };
  }
  return { is: "missing" };
}

/** `/runs/:id` and `/runs/job_1` → `{ id: "job_1" }`; undefined if they do not match. */
export function match(pattern: string, address: string): Params | undefined {
  const parts = pattern.split("/");
  const words = address.replace(/(.)\/$/, "$1").split("/");
  if (parts.length !== words.length) return undefined;
  const params: Params = {};
  for (const [i, part] of parts.entries()) {
    const value = words[i] ?? "";
    if (part.startsWith(":") && value !== "") params[part.slice(1)] = safeDecode(value);
    else if (part !== value) return undefined;
  }
  return params;
}

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
