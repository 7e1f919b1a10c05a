/** The settings in force: what each does, where it comes from, and how to change it. */
import type { Setting } from "../../../resources/server/settings/schema.ts";
import { plural, words } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { One } from "./one.tsx";
import { contains, isChangeable, sectionOf } from "./words.ts";

const SHOWN = {
  all: ["All settings", () => true],
  changed: ["Not at their default", ({ is_default: isDefault }: Setting) => !isDefault],
  here: ["Can be changed here", isChangeable],
} as const satisfies Record<string, readonly [string, (setting: Setting) => boolean]>;
type Show = keyof typeof SHOWN;
const isShow = (text: string | undefined): text is Show => text !== undefined && Object.hasOwn(SHOWN, text);
const OPTIONS = (["all", "changed", "here"] as const).map((show) => [show, SHOWN[show][0]] as const);

export function Page() {
  const settings = useResource<{ data: Setting[] }>("/v1/settings");
  const text = queryOf("q") ?? "";
  const chosen = queryOf("show");
  const show: Show = isShow(chosen) ? chosen : "all";
  return (
    <Frame
      title="Settings"
      purpose="What each setting does and where its value comes from. Limits and retention times change at once; the others need a line in the file and a restart."
    >
      <div class="filters settings-filters">
        <TextField
          label="Search the settings"
          type="search"
          placeholder="Name, meaning or value"
          value={text}
          onInput={(q) => setQuery({ q })}
        />
        <SelectField
          label="Show"
          value={show}
          options={OPTIONS}
          onChange={(next: Show) => setQuery({ show: next === "all" ? undefined : next })}
        />
      </div>
      <Loaded of={settings} skeleton={<Skeleton rows={14} />}>
        {({ data }) => <Sections settings={data.filter((each) => SHOWN[show][1](each) && contains(each, text))} />}
      </Loaded>
    </Frame>
  );
}

const clear = () => setQuery({ q: undefined, show: undefined });

function Sections({ settings }: { settings: readonly Setting[] }) {
  if (settings.length === 0)
    return (
      <Empty title="No setting is like this" action={<Button onClick={clear}>Show all settings</Button>}>
        The search looks at names, meanings, values and sources.
      </Empty>
    );
  const sections = [...Map.groupBy(settings, sectionOf)];
  return (
    <div class="settings-page">
      <nav class="settings-nav" aria-label="Sections">
        {sections.map(([name, rows]) => (
          <a key={name} href={`#${name}`} onClick={(event) => jump(event, name)}>
            {titleOf(name)}
            <small>{rows.length}</small>
          </a>
        ))}
      </nav>
      <div class="grid">
        {sections.map(([name, rows]) => (
          <div key={name} id={name} class="settings-section" tabIndex={-1}>
            <Card title={titleOf(name)} note={plural(rows.length, "setting")}>
              <ul class="settings-list">
                {rows.map((each) => (
                  <One key={each.name} setting={each} />
                ))}
              </ul>
            </Card>
          </div>
        ))}
      </div>
    </div>
  );
}

/** The address stays: the search is in it. */
function jump(event: MouseEvent, name: string) {
  event.preventDefault();
  const section = document.getElementById(name);
  section?.scrollIntoView();
  section?.focus({ preventScroll: true });
}

const INITIALS = ["http", "db", "gpu", "s3", "otlp", "tls", "ssh", "acme", "oidc"];
const titleOf = (name: string) => (INITIALS.includes(name) ? name.toUpperCase() : words(name));
