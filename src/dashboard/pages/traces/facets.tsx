/** Beside the list: how many traces each value has. A click chooses the value, a second one leaves it. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { count } from "../../data/format.ts";
import type { Resource } from "../../data/resource.ts";
import { useRunNames } from "../../data/run_names.ts";
import { Card } from "../../kit/card.tsx";
import { ErrorBox, Skeleton } from "../../kit/page.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { isFiltered } from "./filter_bar.tsx";
import { EVERYTHING, type FilterName } from "./filters.ts";
import { sourceName } from "./status.tsx";
import type { TraceFacets } from "./types.ts";

const SHOWN = 8; // values of a facet; the others open below

/** `value` undefined: without the filter. */
type Value = { value: string | undefined; count: number; shown: string };

export function Facets({ of }: { of: Resource<TraceFacets> }) {
  const { data, error, refresh } = of;
  const [isWide] = useState(() => matchMedia("(min-width: 901px)").matches);
  return (
    <Card class="traces-facets">
      <details open={isWide}>
        <summary>
          <h2>Filters</h2>
        </summary>
        {data ? <Groups of={data} /> : error ? <ErrorBox error={error} retry={refresh} /> : <Skeleton rows={9} />}
      </details>
    </Card>
  );
}

function Groups({ of }: { of: TraceFacets }) {
  const nameOf = useRunNames();
  if (of.total === 0 && of.source.length === 0 && !isFiltered())
    return <p class="muted">The values of requests appear here, to choose from.</p>;
  const plain = (values: readonly { value: string; count: number }[]): Value[] =>
    values.map(({ value, count }) => ({ value, count, shown: value }));
  return (
    <>
      <Group title="Kind" name="source" values={sourcesOf(of)} note={FROM_SERVER} />
      <Group title="Status" name="status" values={statusesOf(of)} />
      <Group
        title="Deployment"
        name="deployment_id"
        values={of.deployment.map(({ value, count, name }) => ({ value, count, shown: name ?? `${value} (deleted)` }))}
      />
      <Group
        title="Model"
        name="model"
        values={plain(of.model).map((each) => ({ ...each, shown: nameOf(each.shown) }))}
      />
      <Group title="User" name="user" values={plain(of.user)} />
      <Group title="Tag" name="tag" values={plain(of.tag)} />
      <Group title="Score" name="score" values={plain(of.score)} />
    </>
  );
}

const FROM_SERVER = "Rollouts, experiments and judges are hidden until you choose them.";
const HIDDEN = ["rollout", "evaluation"];

function sourcesOf({ source }: TraceFacets): Value[] {
  const sum = (values: TraceFacets["source"]) => values.reduce((all, { count }) => all + count, 0);
  const others = source.filter(({ value }) => HIDDEN.includes(value));
  if (source.length === 0) return [];
  return [
    { value: undefined, count: sum(source) - sum(others), shown: "All requests" },
    ...source.map(({ value, count }) => ({ value, count, shown: sourceName(value) })),
    ...(others.length > 0 ? [{ value: EVERYTHING, count: sum(source), shown: "Everything" }] : []),
  ];
}

/** The two sums first, then each status that is no success. */
function statusesOf({ status, total }: TraceFacets): Value[] {
  const failed = status.filter(({ value }) => Number(value) >= 400);
  const failures = failed.reduce((all, { count }) => all + count, 0);
  if (total === 0) return [];
  return [
    { value: "ok", count: total - failures, shown: "OK" },
    ...(failures > 0 ? [{ value: "error", count: failures, shown: "Failed" }] : []),
    ...failed.map(({ value, count }) => ({ value, count, shown: `${value}${STATUSES[value] ?? ""}` })),
  ];
}

const STATUSES: Readonly<Record<string, string>> = {
  "429": " too many requests",
  "499": " closed by the client",
  "500": " fault of the server",
};

type GroupProps = { title: string; name: FilterName; values: readonly Value[]; note?: ComponentChildren };

function Group({ title, name, values, note }: GroupProps) {
  const isOfTraining = name === "source" && queryOf("job_id") !== undefined;
  const chosen = queryOf(name) ?? (isOfTraining ? EVERYTHING : undefined);
  const missing = chosen !== undefined && !values.some(({ value }) => value === chosen);
  const all = missing ? [{ value: chosen, count: 0, shown: chosen }, ...values] : values;
  if (all.length === 0) return null;
  const most = Math.max(...all.map(({ count }) => count)) || 1;
  const line = (each: Value) => <Line key={each.value ?? ""} {...each} name={name} chosen={chosen} most={most} />;
  return (
    <fieldset class="traces-facet">
      <legend>{title}</legend>
      {all.slice(0, SHOWN).map(line)}
      {all.length > SHOWN && (
        <details open={all.slice(SHOWN).some(({ value }) => value === chosen)}>
          <summary>{all.length - SHOWN} more</summary>
          {all.slice(SHOWN).map(line)}
        </details>
      )}
      {note !== undefined && values.some(({ value }) => HIDDEN.includes(value ?? "")) && <small>{note}</small>}
    </fieldset>
  );
}

type LineProps = Value & { name: FilterName; chosen: string | undefined; most: number };

function Line({ value, count: n, shown, name, chosen, most }: LineProps) {
  const isChosen = value === chosen;
  return (
    <button
      type="button"
      aria-pressed={isChosen}
      title={shown}
      onClick={() => setQuery({ [name]: isChosen ? undefined : value }, { push: true })}
    >
      <i style={{ width: `${(n / most) * 100}%` }} />
      <span>{shown}</span>
      <b class="n">{count(n)}</b>
    </button>
  );
}
