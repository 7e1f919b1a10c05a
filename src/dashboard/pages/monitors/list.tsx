import type { Monitor } from "../../../resources/watching/monitors/schema.ts";
import { useList } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Page as Frame, Loaded } from "../../kit/page.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { Severity } from "./severity.tsx";
import { METRICS, rule } from "./words.ts";

const COMMAND = "verk monitors create slow --metric latency_p95 --deployment demo --alert 2000";

export function Page() {
  const list = useList<Monitor>("/v1/monitors?limit=50", { events: ["monitor."], everyMs: 5_000 });
  const create = may("training", false) && (
    <LinkButton kind="primary" icon="plus" href="/monitors/new">
      New monitor
    </LinkButton>
  );
  return (
    <Frame
      title="Monitors"
      purpose="Thresholds over latency, errors, scores, cost and more. A change sends an event to your webhooks."
      actions={create}
    >
      <Card>
        <Loaded of={{ ...list, data: list.items }}>
          {(rows) =>
            rows.length === 0 ? (
              <Empty title="No monitor yet" command={COMMAND} action={create}>
                A monitor tells you when a figure crosses a threshold.
              </Empty>
            ) : (
              <Table
                label="Monitors"
                rows={rows}
                keyOf={({ id }) => id}
                href={({ id }) => `/monitors/${id}`}
                columns={[
                  { title: "Name", cell: ({ name }) => name },
                  { title: "State", cell: (monitor) => <Severity of={monitor} /> },
                  {
                    title: "Watches",
                    cell: ({ metric, score }) => `${METRICS[metric].name}${score === null ? "" : `: ${score}`}`,
                    wide: true,
                  },
                  { title: "Rule", cell: (monitor) => rule(monitor), wide: true },
                  { title: "Changed", cell: ({ changed_at }) => <Time at={changed_at} />, wide: true },
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
