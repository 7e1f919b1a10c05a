/** The API reference: every route of this server, one chapter at a time. */
import { useCallback, useEffect, useState } from "preact/hooks";
import type { Chapter as Listed, ReferenceIndex } from "../../resources/server/docs/chapters.ts";
import { Button, IconButton, LinkButton } from "../kit/button.tsx";
import { applyTheme, THEMES, theme } from "../shell/theme.ts";
import { Chapter } from "./chapter.tsx";
import { Guide } from "./guide.tsx";
import { apiKey, isSignedIn } from "./key.ts";
import { Navigation } from "./navigation.tsx";

export function Reference({ index }: { index: ReferenceIndex }) {
  const [isMenuOpen, setIsMenuOpen] = useState(false);
  const [shown, setShown] = useState(0); // how many chapters were drawn so far
  const target = useTarget();
  const [first] = index.chapters;
  const chapter = chapterOf(index, target) ?? first;
  const current = useCurrent(shown);
  const onShown = useCallback(() => {
    setShown((before) => before + 1);
    if (location.hash.length > 1) location.replace(location.hash); // again: its target exists only now
  }, []);
  return (
    <div class={`reference ${isMenuOpen ? "open" : ""}`}>
      <a class="skip" href="#main">
        Skip to the reference
      </a>
      <TopBar version={index.version} isMenuOpen={isMenuOpen} onMenu={() => setIsMenuOpen(!isMenuOpen)} />
      <Navigation
        chapters={index.chapters}
        chapter={chapter?.name}
        current={current}
        onPick={() => setIsMenuOpen(false)}
      />
      <main id="main" tabIndex={-1}>
        {chapter === first && <Guide />}
        {chapter && <Chapter of={chapter} index={index} onShown={onShown} />}
      </main>
    </div>
  );
}

/** The name behind the # of the address. */
function useTarget(): string {
  const [target, setTarget] = useState(location.hash.slice(1));
  useEffect(() => {
    const follow = () => location.hash !== "#main" && setTarget(location.hash.slice(1));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return target;
}

/** The chapter that a name means: its own, or that of one of its routes. */
export const chapterOf = ({ chapters }: ReferenceIndex, target: string): Listed | undefined =>
  chapters.find(({ name, operations }) => name === target || operations.some(({ id }) => id === target));

type TopBarProps = { version: string; isMenuOpen: boolean; onMenu: () => void };

function TopBar({ version, isMenuOpen, onMenu }: TopBarProps) {
  const next = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "auto";
  const icon = { auto: "auto", light: "sun", dark: "moon" } as const;
  return (
    <header class="reference-bar">
      <a class="brand" href="/" aria-label="verk, to the dashboard">
        ver<i>k</i>
      </a>
      <span class="reference-title">API reference {version}</span>
      <span class="fill" />
      <input
        id="key"
        type="password"
        value={apiKey.value}
        placeholder={isSignedIn() ? "Signed in" : "API key"}
        aria-label="API key, kept in this tab only"
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => {
          apiKey.value = event.currentTarget.value.trim();
        }}
      />
      <LinkButton href="/">Dashboard</LinkButton>
      <IconButton
        icon={icon[theme.value]}
        label={`Colours: ${theme.value}. Change to ${next}`}
        onClick={() => applyTheme(next)}
      />
      <span class="reference-menu">
        <IconButton icon={isMenuOpen ? "close" : "menu"} label="Menu" pressed={isMenuOpen} onClick={onMenu} />
      </span>
    </header>
  );
}

export const Failed = ({ message }: { message: string }) => (
  <main class="gate">
    <div class="card" role="alert">
      <h1>The reference could not be loaded</h1>
      <p>{message}</p>
      <Button onClick={() => location.reload()}>Retry</Button>
    </div>
  </main>
);

/** The id of the route that is being read. */
function useCurrent(shown: number): string {
  const [current, setCurrent] = useState("");
  useEffect(() => {
    const watch = new IntersectionObserver(
      (entries) => {
        const top = entries.find(({ isIntersecting }) => isIntersecting);
        if (top) setCurrent(top.target.id);
      },
      { rootMargin: "-12% 0px -80% 0px" },
    );
    for (const article of document.querySelectorAll("article")) watch.observe(article);
    return () => watch.disconnect();
  }, [shown]);
  return current;
}
