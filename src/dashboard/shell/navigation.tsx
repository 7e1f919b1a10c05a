import type { Signal } from "@preact/signals";
import { may, session } from "../data/session.ts";
import { IconButton } from "../kit/button.tsx";
import { Icon } from "../kit/icon.tsx";
import { PAGES } from "../pages/pages.ts";
import { GROUPS, type PageSpec } from "../pages/spec.ts";
import { path } from "./router.ts";
import { signOut } from "./sign_in.ts";
import { applyTheme, THEMES, theme } from "./theme.ts";

type NavigationProps = { isOpen: Signal<boolean>; onSearch: () => void };

/** On narrow screens a bar with a menu, else a column. */
export function Navigation({ isOpen, onSearch }: NavigationProps) {
  return (
    <header class={`side ${isOpen.value ? "open" : ""}`}>
      <div class="bar">
        <a class="brand" href="/">
          ver<i>k</i>
        </a>
        <button type="button" class="search" onClick={onSearch}>
          <Icon name="search" />
          <span>Search</span>
          <kbd>{isMac ? "⌘K" : "Ctrl K"}</kbd>
        </button>
        <span class="burger">
          <IconButton
            icon={isOpen.value ? "close" : "menu"}
            label="Menu"
            pressed={isOpen.value}
            onClick={() => {
              isOpen.value = !isOpen.value;
            }}
          />
        </span>
      </div>
      <nav aria-label="Pages">
        {GROUPS.map((group) => {
          const pages = shownPages().filter((page) => page.nav?.group === group);
          return pages.length === 0 ? null : (
            <ul key={group} aria-label={group}>
              {pages.map((page) => (
                <Line key={page.path} page={page} />
              ))}
            </ul>
          );
        })}
      </nav>
      <Foot />
    </header>
  );
}

const isMac = /Mac|iPhone|iPad/.test(navigator.platform);

/** Pages with a line in the navigation that the key may open. */
export const shownPages = (): readonly PageSpec[] =>
  PAGES.filter(({ nav, area }) => nav !== undefined && (area === undefined || may(area)));

function Line({ page: { path: to, title, nav } }: { page: PageSpec }) {
  const isHere = to === "/" ? path.value === "/" : path.value === to || path.value.startsWith(`${to}/`);
  return (
    <li>
      <a href={to} aria-current={isHere ? "page" : undefined}>
        {nav && <Icon name={nav.icon} />}
        {nav?.name ?? title}
      </a>
    </li>
  );
}

function Foot() {
  if (session.value.is !== "in") return null;
  const { workspace, key, user } = session.value.session;
  const next = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "auto";
  const icon = { auto: "auto", light: "sun", dark: "moon" } as const;
  return (
    <footer class="foot">
      <a class="who" href="/me" title={user ? `${user.name} · ${user.role}` : `${key.name} · ${key.key_prefix}…`}>
        <b>{workspace.name}</b>
        <small>{key.name}</small>
      </a>
      <IconButton
        icon={icon[theme.value]}
        label={`Colours: ${theme.value}. Change to ${next}`}
        onClick={() => applyTheme(next)}
      />
      <a class="btn quiet only" href="/docs" title="API reference" aria-label="API reference">
        <Icon name="book" />
      </a>
      <IconButton icon="out" label="Sign out" onClick={() => void signOut()} />
    </footer>
  );
}
