/** Routes by group, with a filter. `/` opens it, arrows move, Enter opens, Escape clears. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Operation } from "./contract.ts";
import { Verb } from "./operation.tsx";

type Group = readonly [tag: string, operations: readonly Operation[]];

export function Navigation({
  groups,
  current,
  onPick,
}: {
  groups: readonly Group[];
  current: string;
  onPick: () => void;
}) {
  const [query, setQuery] = useState("");
  const nav = useRef<HTMLElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const shown = useMemo(() => filtered(groups, query), [groups, query]);
  useEffect(() => focusOnSlash(() => input.current?.focus()), []);
  useEffect(() => keepInView(nav.current), [current]);

  const move = (event: KeyboardEvent) => {
    const links = [...(nav.current?.querySelectorAll("a") ?? [])];
    const at = links.indexOf(document.activeElement as HTMLAnchorElement);
    if (event.key === "ArrowDown") links[Math.min(at + 1, links.length - 1)]?.focus();
    else if (event.key === "ArrowUp") (at > 0 ? links[at - 1] : input.current)?.focus();
    else if (event.key === "Enter" && document.activeElement === input.current) links[0]?.click();
    else if (event.key === "Escape") {
      setQuery("");
      input.current?.focus();
    } else return;
    event.preventDefault();
  };

  return (
    <nav id="nav" class="reference-nav" aria-label="Operations" ref={nav} onKeyDown={move}>
      <input
        id="filter"
        type="search"
        ref={input}
        value={query}
        placeholder="Filter routes   /"
        aria-label="Filter routes"
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => setQuery(event.currentTarget.value)}
      />
      {shown.map(([tag, operations]) => (
        <section key={tag} aria-label={tag}>
          <h2>{tag}</h2>
          <ul>
            {operations.map(({ id, method, path, summary }) => (
              <li key={id}>
                <a
                  href={`#${id}`}
                  title={`${method.toUpperCase()} ${path}`}
                  aria-current={id === current ? "location" : undefined}
                  onClick={onPick}
                >
                  <Verb method={method} short />
                  <span>{summary}</span>
                </a>
              </li>
            ))}
          </ul>
        </section>
      ))}
      {shown.length === 0 && <p class="muted">No route fits. Escape clears the filter.</p>}
    </nav>
  );
}

const textOf = ({ tag, method, path, summary, id }: Operation) =>
  `${tag} ${method} ${path} ${summary} ${id}`.toLowerCase();

/** Every word of the query stands in the group, method, path or title. */
export function filtered(groups: readonly Group[], query: string): Group[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [...groups];
  return groups
    .map(([tag, all]) => [tag, all.filter((each) => words.every((word) => textOf(each).includes(word)))] as const)
    .filter(([, some]) => some.length > 0);
}

function focusOnSlash(focus: () => void) {
  const onKey = (event: KeyboardEvent) => {
    const isTyping = /^(INPUT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
    if (event.key !== "/" || event.ctrlKey || event.metaKey || isTyping) return;
    event.preventDefault();
    focus();
  };
  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}

/** Scrolls the list alone, never the page. */
function keepInView(nav: HTMLElement | null) {
  const box = nav?.querySelector("[aria-current]")?.getBoundingClientRect();
  const frame = nav?.getBoundingClientRect();
  if (!nav || !box || !frame || (box.top >= frame.top + 60 && box.bottom <= frame.bottom)) return;
  nav.scrollTop += box.top - frame.top - frame.height / 3;
}
