import type { Agent } from "../../../resources/serving/agents/schema.ts";
import { useList } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Page as Frame, Loaded } from "../../kit/page.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";

export function Page() {
  const list = useList<Agent>("/v1/agents?latest=true&limit=50", { events: ["agent."] });
  const create = may("training", false) && (
    <LinkButton kind="primary" icon="plus" href="/agents/new">
      New agent
    </LinkButton>
  );
  return (
    <Frame
      title="Agents"
      purpose="A deployment with a system prompt, tools and sampling. Its name works as the model of a chat request."
      actions={create}
    >
      <Card>
        <Loaded of={{ ...list, data: list.items }}>
          {(rows) =>
            rows.length === 0 ? (
              <Empty title="No agent yet" action={create || undefined}>
                Save a system prompt and tools once, and use them by name from every client.
              </Empty>
            ) : (
              <Table
                label="Agents"
                rows={rows}
                keyOf={({ id }) => id}
                href={({ name }) => `/agents/${encodeURIComponent(name)}`}
                columns={[
                  { title: "Name", cell: ({ name }) => name },
                  { title: "Version", cell: ({ version }) => version, numeric: true },
                  { title: "Deployment", cell: ({ deployment }) => deployment },
                  { title: "Description", cell: ({ description }) => description, wide: true },
                  { title: "Made", cell: ({ created_at: at }) => <Time at={at} />, wide: true },
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
