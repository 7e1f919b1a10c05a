/** Addresses and history. A plain <a href="/runs"> moves within the page; no special link component is needed. */
import { computed, signal } from "@preact/signals";

export type Address = { path: string; query: URLSearchParams };

const read = (): Address => ({ path: location.pathname, query: new URLSearchParams(location.search) });

export const place = signal<Address>(read());
export const path = computed(() => place.value.path);

/** `replace`: the back button skips the current address. */
export function navigate(to: string, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", to);
  place.value = read();
}

/** Part of the state of a page that belongs into the address, so that a link shows the same: `?step=12`. */
export function setQuery(changes: Readonly<Record<string, string | number | undefined>>, { push = false } = {}) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === "") query.delete(name);
    else query.set(name, String(value));
  }
  const text = query.toString();
  navigate(text === "" ? location.pathname : `${location.pathname}?${text}`, { replace: !push });
}

/** The value of `?name=`, as a signal read: a component that calls it is drawn again when it changes. */
export const queryOf = (name: string): string | undefined => place.value.query.get(name) ?? undefined;

const pagePatterns = new Set<string>();

/** Called once with the patterns of the table of pages. */
export const registerPages = (patterns: readonly string[]) => {
  for (const pattern of patterns) pagePatterns.add(pattern);
};

/** True if the dashboard has a page with this pattern: links lead only to pages that exist. */
export const hasPage = (pattern: string) => pagePatterns.has(pattern);

/** Addresses that the server answers itself. */
const SERVER = /^\/(?:v1|api|docs|metrics|assets|openapi\.json)(?:\/|$)/;

function onClick(event: MouseEvent) {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link?.href || link.target !== "" || link.hasAttribute("download")) return;
  const to = new URL(link.href);
  if (to.origin !== location.origin || SERVER.test(to.pathname)) return;
  event.preventDefault();
  navigate(to.pathname + to.search);
}

export function startRouter() {
  addEventListener("popstate", () => {
    place.value = read();
  });
  document.addEventListener("click", onClick);
}
