import type { Monitor } from "../../../resources/watching/monitors/schema.ts";
import { useList } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Page as Frame, Loaded } from "../../kit/page.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { Curve } from "./curve.tsx";
import { Editor } from "./editor.tsx";
import { Severity } from "./severity.tsx";
import { METRICS, rule } from "./words.ts";

const COMMAND = "verk monitors create slow --metric latency_p95 --deployment demo --alert 2000";

/** Each curve is a request of its own. */
const MOST_CURVES = 20;

export function Page() {
  const list = useList<Monitor>("/v1/monitors?limit=50", { events: ["monitor."], everyMs: 5_000 });
  const create = may("training", false) && (
    <Button kind="primary" icon="plus" onClick={() => setQuery({ new: "1" })}>
      New monitor
    </Button>
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
                A monitor watches one figure. When it passes a threshold, your webhooks get an event.
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
                    title: "Last hours",
                    cell: (monitor) => (rows.length > MOST_CURVES ? "" : <Curve of={monitor} />),
                    wide: true,
                  },
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
      {queryOf("new") === "1" && <Editor onClose={() => setQuery({ new: undefined, deployment_id: undefined })} />}
    </Frame>
  );
}
