/** Cmd-K: actions, pages, runs, deployments and datasets by name. */
import { useEffect, useRef, useState } from "preact/hooks";
import { type Page as ListPage, useResource } from "../data/resource.ts";
import { rank } from "../data/search.ts";
import { may } from "../data/session.ts";
import { Icon, type IconName } from "../kit/icon.tsx";
import { shownPages } from "./navigation.tsx";
import { navigate } from "./router.ts";
import { isPaletteOpen, openHelp } from "./shortcuts.tsx";
import { signOut } from "./sign_in.ts";
import { applyTheme, THEMES, theme } from "./theme.ts";

type Entry = {
  name: string;
  kind: string;
  icon: IconName;
  /** The address that it leads to, or a name for its act. */
  href: string;
  act?: () => unknown;
};
type Named = { id: string; name?: string | null; output_name?: string | null };

const MOST = 12;

export const Palette = () => (isPaletteOpen.value ? <Search /> : null);

/** Things that have a page. An area without one is left out. */
function useEntries(): Entry[] {
  const pages = shownPages();
  const pathOf = (prefix: string) => (pages.some(({ path }) => path === prefix) ? prefix : null);
  const from = (prefix: string, route: string, area: "training" | "inference") =>
    pathOf(prefix) !== null && may(area) ? route : null;
  const runs = useResource<ListPage<Named>>(from("/runs", "/v1/training_jobs?limit=100", "training"));
  const deployments = useResource<ListPage<Named>>(from("/deployments", "/v1/deployments?limit=100", "inference"));
  const datasets = useResource<ListPage<Named>>(from("/datasets", "/v1/datasets?limit=100", "training"));
  const models = useResource<ListPage<Named>>(from("/models", "/v1/models?registry=true&limit=100", "inference"));
  const named = (list: ListPage<Named> | undefined, kind: string, prefix: string, icon: IconName) =>
    (list?.data ?? []).map((item) => ({
      name: item.output_name || item.name || item.id,
      kind,
      icon,
      href: `${prefix}/${item.id}`,
    }));
  return [
    ...pages.map(({ title, path, nav }) => ({ name: title, kind: "Page", href: path, icon: nav?.icon ?? "home" })),
    ...pages.flatMap(({ actions = [] }) =>
      actions.map(([name, href]) => ({ name, kind: "Action", href, icon: "plus" as const })),
    ),
    ...named(runs.data, "Run", "/runs", "runs"),
    ...named(models.data, "Model", "/models", "models"),
    ...named(deployments.data, "Deployment", "/deployments", "deployments"),
    ...named(datasets.data, "Dataset", "/datasets", "datasets"),
    { name: "API reference", kind: "Page", href: "/docs", icon: "book" },
    ...THEMES.filter((each) => each !== theme.value).map((each) => ({
      name: { auto: "Colours as the system has them", light: "Light colours", dark: "Dark colours" }[each],
      kind: "Action",
      href: `theme ${each}`,
      icon: { auto: "auto", light: "sun", dark: "moon" }[each] as IconName,
      act: () => applyTheme(each),
    })),
    { name: "Keyboard shortcuts", kind: "Action", href: "keyboard ?", icon: "search", act: openHelp },
    { name: "Sign out", kind: "Action", href: "sign out", icon: "close", act: signOut },
  ];
}

function Search() {
  const ref = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const hits = rank(useEntries(), text, ({ name, href }) => `${name} ${href}`).slice(0, MOST);
  const close = () => {
    isPaletteOpen.value = false;
  };
  useEffect(() => ref.current?.showModal(), []);
  const open = (entry: Entry | undefined) => {
    if (!entry) return;
    close();
    if (entry.act) void entry.act();
    else if (entry.href === "/docs") location.assign(entry.href);
    else navigate(entry.href);
  };
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) setChosen((chosen + step + hits.length) % Math.max(1, hits.length));
    else if (event.key === "Enter") open(hits[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Esc closes it, the browser's own way
    <dialog
      ref={ref}
      class="palette"
      aria-label="Search"
      onClose={close}
      onClick={(e) => e.target === ref.current && close()}
    >
      <input
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls="found"
        aria-activedescendant={hits.length === 0 ? undefined : `found-${chosen}`}
        aria-label="Search actions, pages, runs, deployments and datasets"
        placeholder="Search actions, pages, runs, deployments, datasets"
        value={text}
        onKeyDown={onKey}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setChosen(0);
        }}
      />
      <div id="found" role="listbox" aria-label="Found">
        {hits.map((entry, i) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are handled by the input, which keeps the focus
          // biome-ignore lint/a11y/useFocusableInteractive: the input keeps the focus
          <div
            key={entry.href}
            id={`found-${i}`}
            role="option"
            aria-selected={i === chosen}
            onClick={() => open(entry)}
          >
            <Icon name={entry.icon} />
            <span>{entry.name}</span>
            <small>{entry.kind}</small>
          </div>
        ))}
        {hits.length === 0 && <p class="muted">Nothing has this name.</p>}
      </div>
    </dialog>
  );
}
