import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { count, duration, money, NONE, number } from "../../data/format.ts";
import { type Page as ListPage, useList, useResource } from "../../data/resource.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { More, Table } from "../../kit/table.tsx";
import { now, Time } from "../../kit/time.tsx";
import { queryOf } from "../../shell/router.ts";
import { Facets } from "./facets.tsx";
import { clearFilters, FilterBar, isFiltered } from "./filter_bar.tsx";
import { facetsPathOf, pathOf } from "./filters.ts";
import { KeepButton, NotKept, notKeptText } from "./not_kept.tsx";
import { Status, sourceName } from "./status.tsx";
import type { TraceFacets, TraceSummary } from "./types.ts";

const EVERY_MS = 5_000;

export function Page() {
  const list = useList<TraceSummary>(pathOf(queryOf, now.value), { everyMs: EVERY_MS });
  const facets = useResource<TraceFacets>(facetsPathOf(queryOf, now.value), { everyMs: EVERY_MS });
  const deployments = useResource<ListPage<Deployment>>("/v1/deployments?limit=100", { events: ["deployment."] });
  const all = deployments.data?.data ?? [];
  return (
    <Frame
      title="Traces"
      purpose="Every request that a model answered: what it said, how long it took, what it cost."
      actions={<LinkButton href="/conversations">Conversations</LinkButton>}
    >
      <div class="traces-page">
        <Facets of={facets} />
        <Card>
          <FilterBar />
          <Loaded of={{ ...list, data: list.items }} skeleton={<Skeleton height={520} />}>
            {(rows) =>
              rows.length === 0 ? (
                <Nothing facets={facets.data} deployments={all} hasMore={list.hasMore} />
              ) : (
                <>
                  <NotKept facets={facets.data} deployments={all} />
                  <Rows rows={rows} deployments={all} />
                </>
              )
            }
          </Loaded>
          <More list={list} />
        </Card>
      </div>
    </Frame>
  );
}

type NothingProps = { facets: TraceFacets | undefined; deployments: readonly Deployment[]; hasMore: boolean };

function Nothing({ facets, deployments, hasMore }: NothingProps) {
  if (hasMore) return <Empty title="No match among the newest traces">Show more to search the older ones.</Empty>;
  if (queryOf("q") !== undefined && facets && facets.not_kept > 0)
    return (
      <Empty
        title="No trace matches"
        action={
          <div class="row">
            <KeepButton deployments={deployments} />
            <Button onClick={clearFilters}>Clear filters</Button>
          </div>
        }
      >
        {notKeptText(facets)} A search finds only content that was kept.
      </Empty>
    );
  if (isFiltered())
    return (
      <Empty title="No trace matches" action={<Button onClick={clearFilters}>Clear filters</Button>}>
        Change a filter, or clear all of them.
      </Empty>
    );
  return deployments.length === 0 ? (
    <Empty
      title="No trace yet"
      command="verk deploy verk-tiny --name demo --capture full"
      action={
        <LinkButton href="/deployments/new" kind="primary">
          New deployment
        </LinkButton>
      }
    >
      A trace is made for each request to a deployment. No model is deployed yet.
    </Empty>
  ) : (
    <Empty
      title="No trace yet"
      action={
        <div class="row">
          <LinkButton href="/playground" kind="primary">
            Open the playground
          </LinkButton>
          <KeepButton deployments={deployments} />
        </div>
      }
    >
      A trace is made for each request to a deployment. Ask a model something, or send spans of another program to
      /v1/traces.
    </Empty>
  );
}

function Rows({ rows, deployments }: { rows: readonly TraceSummary[]; deployments: readonly Deployment[] }) {
  const names = new Map(deployments.map(({ id, name }) => [id, name]));
  const longest = Math.max(...rows.map(({ duration_ms }) => duration_ms));
  return (
    <Table
      label="Traces"
      rows={rows}
      keyOf={({ id }) => id}
      href={({ id }) => `/traces/${id}`}
      columns={[
        { title: "Request", cell: (trace) => <Words of={trace} /> },
        { title: "Status", cell: (trace) => <Status of={trace} /> },
        {
          title: "Model",
          cell: ({ deployment_id: id, model }) => (
            <span class="traces-name">{id === null ? (model ?? NONE) : (names.get(id) ?? model ?? id)}</span>
          ),
          wide: true,
        },
        { title: "User", cell: ({ user }) => <span class="traces-name">{user ?? NONE}</span>, wide: true },
        { title: "Score", cell: ({ scores }) => <Scores of={scores} />, wide: true },
        {
          title: "Tokens",
          cell: ({ prompt_tokens: read, completion_tokens: written }) => (
            <span title={`${count(read)} in, ${count(written)} out`}>
              {count(read)} → {count(written)}
            </span>
          ),
          numeric: true,
        },
        { title: "Cost", cell: ({ cost_usd }) => money(cost_usd), numeric: true, wide: true },
        {
          title: "Duration",
          cell: ({ duration_ms }) => (
            <span class="traces-duration">
              <i style={{ width: `${(duration_ms / (longest || 1)) * 100}%` }} />
              {duration(duration_ms / 1000)}
            </span>
          ),
          numeric: true,
        },
      ]}
    />
  );
}

/** Question and answer. A request that was not kept is recognized by the end of its id. */
const Words = ({ of }: { of: TraceSummary }) => (
  <span class="traces-words">
    <b>{of.input_start ?? (of.capture === "full" ? "No text" : "Content not kept")}</b>
    {of.output_start !== null && <span>{of.output_start}</span>}
    <small>
      {sourceName(of.source)}, <Time at={of.created_at} />
      {of.input_start === null && ` · …${of.id.slice(-6)}`}
      {of.tags.map((tag) => (
        <em key={tag}>{tag}</em>
      ))}
    </small>
  </span>
);

const MOST_SCORES = 2;

const Scores = ({ of }: { of: TraceSummary["scores"] }) =>
  of.length === 0 ? (
    NONE
  ) : (
    <span class="traces-marks">
      {of.slice(0, MOST_SCORES).map(({ name, value }) => (
        <span key={name}>
          {name} <b class="n">{typeof value === "number" ? number(value) : value === true ? "yes" : value || "no"}</b>
        </span>
      ))}
      {of.length > MOST_SCORES && <span>and {of.length - MOST_SCORES} more</span>}
    </span>
  );
