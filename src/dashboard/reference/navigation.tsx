/** Chapters, with the routes of the open one, and a filter. `/` opens it, arrows move, Enter opens, Escape clears. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Chapter, ChapterEntry } from "../../resources/server/docs/chapters.ts";
import { Verb } from "./operation.tsx";

type NavigationProps = {
  chapters: readonly Chapter[];
  /** The name of the open chapter. */
  chapter: string | undefined;
  current: string;
  onPick: () => void;
};

export function Navigation({ chapters, chapter, current, onPick }: NavigationProps) {
  const [query, setQuery] = useState("");
  const nav = useRef<HTMLElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const shown = useMemo(() => filtered(chapters, query), [chapters, query]);
  useEffect(() => focusOnSlash(() => input.current?.focus()), []);
  useEffect(() => keepInView(nav.current), [current]);

  const move = (event: KeyboardEvent) => {
    const some = query.trim() === "" ? "a" : "li a"; // the matches are routes
    const links = [...(nav.current?.querySelectorAll<HTMLAnchorElement>(some) ?? [])].filter(isVisible);
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
      {shown.map(({ name, title, operations }) => (
        <section key={name} aria-label={title}>
          <h2>
            <a href={`#${name}`} aria-current={name === chapter ? "page" : undefined} onClick={onPick}>
              {title}
              <small>{operations.length}</small>
            </a>
          </h2>
          <ul hidden={query.trim() === "" && name !== chapter}>
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

const textOf = (title: string, { method, path, summary, id }: ChapterEntry) =>
  `${title} ${method} ${path} ${summary} ${id}`.toLowerCase();

/** Every word of the query stands in the chapter, method, path or title. */
export function filtered(chapters: readonly Chapter[], query: string): readonly Chapter[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return chapters;
  return chapters
    .map((chapter) => ({
      ...chapter,
      operations: chapter.operations.filter((each) =>
        words.every((word) => textOf(chapter.title, each).includes(word)),
      ),
    }))
    .filter(({ operations }) => operations.length > 0);
}

const isVisible = (link: HTMLElement) => link.offsetParent !== null;

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
  const box = nav?.querySelector("li [aria-current]")?.getBoundingClientRect();
  const frame = nav?.getBoundingClientRect();
  if (!nav || !box || !frame || (box.top >= frame.top + 60 && box.bottom <= frame.bottom)) return;
  nav.scrollTop += box.top - frame.top - frame.height / 3;
}
