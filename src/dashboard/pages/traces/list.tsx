import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { count, duration, NONE } from "../../data/format.ts";
import { type Page as ListPage, useList, useResource } from "../../data/resource.ts";
import { LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Page as Frame, Loaded } from "../../kit/page.tsx";
import { More, Table } from "../../kit/table.tsx";
import { now, Time } from "../../kit/time.tsx";
import { queryOf } from "../../shell/router.ts";
import { FilterBar } from "./filter_bar.tsx";
import { FILTERS, pathOf } from "./filters.ts";
import { Status, sourceName } from "./status.tsx";
import type { TraceSummary } from "./types.ts";

const EVERY_MS = 5_000;
const LIMIT = 50;

export function Page() {
  const list = useList<TraceSummary>(pathOf(queryOf, now.value), { everyMs: EVERY_MS });
  const isFiltered = FILTERS.some((name) => queryOf(name) !== undefined);
  return (
    <Frame
      title="Traces"
      purpose="Every request that a model answered: how long it took, what it cost, what it said."
      actions={<LinkButton href="/conversations">Conversations</LinkButton>}
    >
      <Card>
        <FilterBar />
        <Loaded of={{ ...list, data: list.items }}>
          {(rows) =>
            rows.length === 0 ? <Nothing isFiltered={isFiltered} hasMore={list.hasMore} /> : <Rows rows={rows} />
          }
        </Loaded>
        <More list={list} />
      </Card>
    </Frame>
  );
}

const Nothing = ({ isFiltered, hasMore }: { isFiltered: boolean; hasMore: boolean }) =>
  hasMore ? (
    <Empty title="No match among the newest traces">Show more to search the older ones.</Empty>
  ) : isFiltered ? (
    <Empty title="No trace matches">Change or clear the filters.</Empty>
  ) : (
    <Empty title="No trace yet" command="verk deploy verk-tiny --name demo --capture full">
      A trace is made for each request to a deployment. With capture full it keeps the content too.
    </Empty>
  );

function Rows({ rows }: { rows: readonly TraceSummary[] }) {
  const deployments = useResource<ListPage<Deployment>>(`/v1/deployments?limit=${2 * LIMIT}`);
  const nameOf = (id: string) => deployments.data?.data.find((each) => each.id === id)?.name ?? id;
  const longest = Math.max(...rows.map(({ duration_ms }) => duration_ms));
  return (
    <Table
      label="Traces"
      rows={rows}
      keyOf={({ id }) => id}
      href={({ id }) => `/traces/${id}`}
      columns={[
        {
          title: "Request",
          cell: ({ source, created_at }) => (
            <>
              {sourceName(source)}, <Time at={created_at} />
            </>
          ),
        },
        { title: "Status", cell: (trace) => <Status of={trace} /> },
        {
          title: "Model",
          cell: ({ deployment_id, model }) => (deployment_id === null ? (model ?? NONE) : nameOf(deployment_id)),
          wide: true,
        },
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
        {
          title: "First token",
          cell: ({ ttft_ms }) => duration(ttft_ms === null ? null : ttft_ms / 1000),
          numeric: true,
          wide: true,
        },
        { title: "Tokens in", cell: ({ prompt_tokens }) => count(prompt_tokens), numeric: true, wide: true },
        { title: "Tokens out", cell: ({ completion_tokens }) => count(completion_tokens), numeric: true, wide: true },
      ]}
    />
  );
}
