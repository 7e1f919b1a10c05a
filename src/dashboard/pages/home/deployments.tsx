import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { count } from "../../data/format.ts";
import type { Page as ListPage, Resource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Loaded } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { Table } from "../../kit/table.tsx";
import { hasPage } from "../../shell/router.ts";

export function Deployments({ deployments }: { deployments: Resource<ListPage<Deployment>> }) {
  return (
    <Card title="Deployments" side={hasPage("/deployments") && <a href="/deployments">All</a>}>
      <Loaded of={deployments}>
        {({ data }) => {
          const live = data.filter(({ status }) => status !== "stopped");
          return live.length === 0 ? <None /> : <List rows={live} />;
        }}
      </Loaded>
    </Card>
  );
}

const None = () => (
  <Empty
    title="Nothing is served"
    command="verk deploy verk-tiny --name demo"
    action={may("inference", false) && <LinkButton href="/deployments/new">New deployment</LinkButton>}
  >
    A deployment answers chats over the API of OpenAI.
  </Empty>
);

const List = ({ rows }: { rows: readonly Deployment[] }) => (
  <Table
    label="Deployments"
    rows={rows}
    keyOf={({ id }) => id}
    href={hasPage("/deployments/:id") ? ({ id }) => `/deployments/${id}` : undefined}
    columns={[
      { title: "Name", cell: ({ name }) => name },
      {
        title: "State",
        cell: ({ status, parked, load, error }) => (
          <State status={parked ? "parked" : status} reason={error ?? load?.reason} />
        ),
      },
      { title: "Requests", cell: ({ total_requests: total }) => count(total), numeric: true },
    ]}
  />
);
