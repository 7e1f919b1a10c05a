/** The settings in force, read-only: they are read at the start of the server. */
import type { Setting } from "../../../resources/server/settings/schema.ts";
import { plural, words } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { Card } from "../../kit/card.tsx";
import { CheckField } from "../../kit/field.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";

export function Page() {
  const settings = useResource<{ data: Setting[] }>("/v1/settings");
  const text = queryOf("q") ?? "";
  const isChangedOnly = queryOf("changed") === "1";
  return (
    <Frame
      title="Settings"
      purpose="The settings in force. To change one, edit the file or a variable and restart the server."
    >
      <div class="settings-filters">
        <input
          type="search"
          aria-label="Filter the settings"
          placeholder="Name or meaning"
          value={text}
          onInput={(event) => setQuery({ q: event.currentTarget.value })}
        />
        <CheckField
          label="Only those that are set"
          checked={isChangedOnly}
          onChange={(isOn) => setQuery({ changed: isOn ? 1 : undefined })}
        />
      </div>
      <Loaded of={settings} skeleton={<Skeleton rows={12} />}>
        {({ data }) => {
          const wanted = data.filter((each) => (!isChangedOnly || !each.is_default) && contains(each, text));
          if (wanted.length === 0) return <Empty title="No setting matches" command="verk config default" />;
          return (
            <div class="grid">
              {[...Map.groupBy(wanted, sectionOf)].map(([section, rows]) => (
                <Section key={section} name={section} rows={rows} />
              ))}
            </div>
          );
        }}
      </Loaded>
    </Frame>
  );
}

const sectionOf = ({ name }: Setting) => (name.includes(".") ? (name.split(".")[0] ?? "") : "general");
const contains = ({ name, meaning }: Setting, text: string) =>
  `${name} ${meaning}`.toLowerCase().includes(text.toLowerCase());

const INITIALS = ["http", "db", "gpu", "s3", "otlp", "tls", "ssh"];

const Section = ({ name, rows }: { name: string; rows: readonly Setting[] }) => (
  <Card title={INITIALS.includes(name) ? name.toUpperCase() : words(name)} note={plural(rows.length, "setting")}>
    <dl class="settings-list">
      {rows.map((each) => (
        <div key={each.name}>
          <dt>
            <code>{each.name}</code>
            <small>{each.meaning}</small>
          </dt>
          <dd>
            <code class={each.is_default ? "" : "set"}>{shown(each.value)}</code>
            <small>{each.is_default ? "default" : `${each.source}; default ${shown(each.default)}`}</small>
          </dd>
        </div>
      ))}
    </dl>
  </Card>
);

const shown = (value: Setting["value"]): string => {
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.join(", ");
  return value === "" ? "not set" : String(value);
};
