import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { count, money } from "../../data/format.ts";
import { useList } from "../../data/resource.ts";
import { useRunNames } from "../../data/run_names.ts";
import { may } from "../../data/session.ts";
import { LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Page as Frame, Loaded } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { stateOf } from "./words.ts";

export function Page() {
  const list = useList<Deployment>("/v1/deployments?limit=50", { events: ["deployment."], everyMs: 5_000 });
  const nameOf = useRunNames();
  return (
    <Frame
      title="Deployments"
      purpose="Models that answer requests. Each has an address in the OpenAI format."
      actions={
        may("inference", false) && (
          <LinkButton kind="primary" icon="plus" href="/deployments/new">
            New deployment
          </LinkButton>
        )
      }
    >
      <Card>
        <Loaded of={{ ...list, data: list.items }}>
          {(rows) =>
            rows.length === 0 ? (
              <Empty
                title="No deployment yet"
                command="verk deploy verk-tiny --name demo"
                action={may("inference", false) && <LinkButton href="/deployments/new">New deployment</LinkButton>}
              >
                Deploy a model of this server, the result of a run, or a model of the hub.
              </Empty>
            ) : (
              <Table
                label="Deployments"
                rows={rows}
                keyOf={({ id }) => id}
                href={({ id }) => `/deployments/${id}`}
                columns={[
                  { title: "Name", cell: ({ name }) => name },
                  { title: "State", cell: (row) => <State {...stateOf(row)} /> },
                  {
                    title: "Model",
                    cell: ({ model, checkpoint }) =>
                      checkpoint === null ? nameOf(model) : `${nameOf(model)}, ${checkpoint}`,
                    wide: true,
                  },
                  { title: "Requests", cell: ({ total_requests: total }) => count(total), numeric: true, wide: true },
                  { title: "Last request", cell: ({ last_request_at: at }) => <Time at={at} />, wide: true },
                  { title: "Cost", cell: ({ total_cost_usd: cost }) => money(cost), numeric: true, wide: true },
                ]}
              />
            )
          }
        </Loaded>
        <More list={list} />
      </Card>
    </Frame>
  );
}
