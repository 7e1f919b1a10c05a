/** The API reference: every route of this server on one page. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { Button, IconButton, LinkButton } from "../kit/button.tsx";
import { applyTheme, THEMES, theme } from "../shell/theme.ts";
import { type Contract, openContract, operationsOf, type Operation as Route } from "./contract.ts";
import { createdBy, variableOf } from "./example.ts";
import { Guide } from "./guide.tsx";
import { apiKey, isSignedIn } from "./key.ts";
import { Navigation } from "./navigation.tsx";
import { Operation } from "./operation.tsx";

export function Reference({ contract }: { contract: Contract }) {
  const [isMenuOpen, setIsMenuOpen] = useState(false);
  const operations = useMemo(() => {
    openContract(contract);
    return operationsOf(contract);
  }, [contract]);
  const groups = useMemo(() => grouped(operations), [operations]);
  const used = useMemo(() => variablesOf(operations), [operations]);
  const current = useCurrent(operations);
  useEffect(() => {
    if (location.hash.length > 1) location.replace(location.hash); // again: its target exists only now
  }, []);
  return (
    <div class={`reference ${isMenuOpen ? "open" : ""}`}>
      <a class="skip" href="#main">
        Skip to the reference
      </a>
      <TopBar version={contract.info.version} isMenuOpen={isMenuOpen} onMenu={() => setIsMenuOpen(!isMenuOpen)} />
      <Navigation groups={groups} current={current} onPick={() => setIsMenuOpen(false)} />
      <main id="main" tabIndex={-1}>
        <Guide />
        {groups.map(([tag, some]) => (
          <section key={tag}>
            <h2 id={`tag-${tag.toLowerCase().replaceAll(/\W+/g, "-")}`}>{tag}</h2>
            {some.map((each) => (
              <Operation key={each.id} of={each} saves={savedBy(each, used)} />
            ))}
          </section>
        ))}
      </main>
    </div>
  );
}

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

/** Groups by name. "System" is last: few people look for it. */
function grouped(operations: readonly Route[]) {
  const byTag = Map.groupBy(operations, ({ tag }) => tag);
  return [...byTag].sort(([a], [b]) => Number(a === "System") - Number(b === "System") || a.localeCompare(b));
}

/** Names of the variables in all paths. */
const variablesOf = (operations: readonly Route[]): ReadonlySet<string> =>
  new Set(
    operations.flatMap(({ path, parameters }) =>
      parameters.filter(({ in: where }) => where === "path").map(({ name }) => variableOf(path, name)),
    ),
  );

/** Not every route that could save an id has others that use it. */
function savedBy(operation: Route, used: ReadonlySet<string>): string | undefined {
  const name = createdBy(operation);
  return name !== undefined && used.has(name) ? name : undefined;
}

/** The id of the route that is being read. */
function useCurrent(operations: readonly Route[]): string {
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
  }, [operations]);
  return current;
}
