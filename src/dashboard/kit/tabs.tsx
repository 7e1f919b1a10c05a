import { useLayoutEffect, useRef } from "preact/hooks";
import { queryOf, setQuery } from "../shell/router.ts";

type TabsProps = {
  label: string;
  /** The tab is in the address: `?tab=logs`. The first one is the default. */
  name?: string | undefined;
  tabs: readonly (readonly [value: string, shown: string])[];
};

/** The chosen tab of `Tabs` with the same name. */
export const tabOf = (first: string, name = "tab"): string => queryOf(name) ?? first;

export function Tabs({ label, name = "tab", tabs }: TabsProps) {
  const [first = ""] = tabs[0] ?? [];
  const chosen = tabOf(first, name);
  const bar = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const tab = bar.current?.querySelector<HTMLElement>("[aria-current]");
    if (bar.current && tab) bar.current.scrollLeft = tab.offsetLeft - (bar.current.clientWidth - tab.offsetWidth) / 2;
  }, [chosen]); // a phone has no room for all tabs
  return (
    <nav class="tabs" aria-label={label} ref={bar}>
      {tabs.map(([value, shown]) => (
        <button
          key={value}
          type="button"
          aria-current={value === chosen ? "true" : undefined}
          onClick={() => setQuery({ [name]: value === first ? undefined : value })}
        >
          {shown}
        </button>
      ))}
    </nav>
  );
}
