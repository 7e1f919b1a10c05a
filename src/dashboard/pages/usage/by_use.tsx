/** Use by day, and by kind, key or model: bars, a table and a file. The choices are in the address. */
import { useMemo } from "preact/hooks";
import type { ApiKey } from "../../../resources/access/api_keys/schema.ts";
import type { CostByUse } from "../../../resources/money/cost/schema.ts";
import { count, money, number } from "../../data/format.ts";
import { type Page, useResource } from "../../data/resource.ts";
import { useRunNames } from "../../data/run_names.ts";
import { may } from "../../data/session.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Chart } from "../../kit/chart/chart.tsx";
import { saveText } from "../../kit/chart/save.ts";
import { SelectField } from "../../kit/field.tsx";
import { Empty, Loaded, Skeleton } from "../../kit/page.tsx";
import { Table } from "../../kit/table.tsx";
import { Tabs, tabOf } from "../../kit/tabs.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { barsOf, csvOf, type Group, isMeasure, MEASURES } from "./uses.ts";

const FRESH = { everyMs: 30_000 };
const HEIGHT_PX = 260;
const BY = [
  ["kind", "Training and serving"],
  ["model", "Model"],
  ["key", "Key"],
] as const;
type By = (typeof BY)[number][0];
const isBy = (text: string | undefined): text is By => BY.some(([by]) => by === text);
const KINDS = [
  ["", "Training and serving"],
  ["training", "Training"],
  ["serving", "Serving"],
] as const;

/** Names of keys and models. What was deleted keeps its id. */
function useNames(by: By) {
  const keys = useResource<Page<ApiKey>>(may("account") ? "/v1/api_keys?limit=100" : null, FRESH).data?.data ?? [];
  const runName = useRunNames();
  const keyName = (id: string) => keys.find((key) => key.id === id)?.name ?? id;
  const nameOf = ({ group, is_others: isOthers }: Group): string => {
    if (isOthers) return "Others";
    if (group === null) return by === "key" ? "No key: the server itself" : "No model";
    if (by === "key") return keyName(group);
    return by === "model" ? runName(group) : group === "training" ? "Training" : "Serving";
  };
  return { keys, runName, nameOf };
}

export function ByUse({ days }: { days: string }) {
  const named = queryOf("by");
  const by = isBy(named) ? named : "model";
  const [keyId, model, kind] = [queryOf("key") ?? "", queryOf("model") ?? "", queryOf("kind") ?? ""];
  const { keys, runName, nameOf } = useNames(by);
  const query = new URLSearchParams({
    days,
    by,
    ...(keyId === "" ? {} : { key_id: keyId }),
    ...(model === "" ? {} : { model }),
    ...(kind === "" ? {} : { kind }),
  });
  const uses = useResource<CostByUse>(`/v1/cost/by_use?${query}`, FRESH);
  const models = useResource<CostByUse>(`/v1/cost/by_use?days=${days}&by=model`, FRESH).data?.data ?? [];
  const modelNames = models.flatMap(({ group }) => (group === null ? [] : [group]));
  return (
    <>
      <div class="usage-filters">
        <SelectField label="Split by" value={by} options={BY} onChange={(next) => setQuery({ by: next })} />
        <SelectField
          label="Model"
          value={model}
          options={[["", "All models"], ...withChosen(modelNames, model).map((id) => [id, runName(id)] as const)]}
          onChange={(next) => setQuery({ model: next })}
        />
        {may("account") && (
          <SelectField
            label="Key"
            value={keyId}
            options={[["", "All keys"], ...keys.map(({ id, name }) => [id, name] as const)]}
            onChange={(next) => setQuery({ key: next })}
          />
        )}
        <SelectField
          label="Kind"
          value={kind as (typeof KINDS)[number][0]}
          options={KINDS}
          onChange={(next) => setQuery({ kind: next })}
        />
      </div>
      <Loaded of={uses} skeleton={<Skeleton height={560} />}>
        {(loaded) => <Uses uses={loaded} nameOf={nameOf} isFiltered={keyId + model + kind !== ""} />}
      </Loaded>
    </>
  );
}

/** A choice of the address that has no use in the period stays a choice. */
const withChosen = (names: readonly string[], chosen: string) =>
  chosen === "" || names.includes(chosen) ? names : [...names, chosen];

type UsesProps = { uses: CostByUse; nameOf: (group: Group) => string; isFiltered: boolean };

function Uses({ uses, nameOf, isFiltered }: UsesProps) {
  const tab = tabOf("cost", "measure");
  const measure = isMeasure(tab) ? tab : "cost";
  const { title, unit, show } = MEASURES[measure];
  const { x, series } = useMemo(() => barsOf(uses, measure, nameOf), [uses, measure, uses.data.map(nameOf).join("\n")]);
  const isEmpty = uses.data.length === 0;
  const file = `usage-by-${uses.by}-${uses.first_day}-${uses.last_day}.csv`;
  const save = () => saveText(file, "text/csv", csvOf(uses.data, uses.by, nameOf));
  return (
    <Card
      title="By day"
      note="days of UTC; time and cost count for the key that pays, requests and tokens for the key that sent them"
      side={!isEmpty && <Button onClick={save}>Export CSV</Button>}
    >
      <Tabs
        label="Measure"
        name="measure"
        tabs={Object.entries(MEASURES).map(([key, { title: shown }]) => [key, shown])}
      />
      {series.length === 0 ? (
        <Empty
          title={`${title}: nothing in this period`}
          action={
            isFiltered ? (
              <Button onClick={() => setQuery({ key: undefined, model: undefined, kind: undefined })}>
                Clear filters
              </Button>
            ) : (
              <LinkButton href="/runs/new">New run</LinkButton>
            )
          }
        >
          {measure === "cost"
            ? "Work on this machine is free unless the operator sets a rate. The other measures count it."
            : "Runs and requests to deployments are counted here."}
        </Empty>
      ) : (
        <div class="usage-chart">
          <Chart
            label={`${title} by day`}
            x={x}
            series={series}
            kind="day"
            bars
            xLabel="day"
            yLabel={unit}
            format={show}
            height={HEIGHT_PX}
          />
        </div>
      )}
      {!isEmpty && <Groups uses={uses} nameOf={nameOf} />}
    </Card>
  );
}

function Groups({ uses: { data, by, total }, nameOf }: Omit<UsesProps, "isFiltered">) {
  const all: Group = { ...total, group: null, is_others: false, days: [] };
  const rows = data.length > 1 ? [...data, all] : data;
  const titles = { kind: "Kind", model: "Model", key: "Key" } as const;
  return (
    <Table
      label="Use by group"
      rows={rows}
      keyOf={(row) => (row === all ? "total" : `${row.is_others} ${row.group ?? ""}`)}
      columns={[
        {
          title: titles[by],
          cell: (row) => (row === all ? <b>All</b> : <span class="usage-name">{nameOf(row)}</span>),
        },
        { title: "Requests", cell: (row) => count(row.requests), numeric: true },
        { title: "Tokens in", cell: (row) => count(row.prompt_tokens), numeric: true, wide: true },
        { title: "From the cache", cell: (row) => count(row.cached_tokens), numeric: true, wide: true },
        { title: "Tokens out", cell: (row) => count(row.completion_tokens), numeric: true, wide: true },
        { title: "Runs", cell: (row) => count(row.jobs), numeric: true },
        { title: "Device hours", cell: (row) => number(row.device_hours), numeric: true, wide: true },
        { title: "Cost", cell: (row) => money(row.cost_usd), numeric: true },
      ]}
    />
  );
}
