import { useState } from "preact/hooks";
import type { z } from "zod";
import type { DeploymentRequest } from "../../../resources/serving/deployments/schema.ts";
import { count, duration } from "../../data/format.ts";
import { useList } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Loaded } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";

type Row = z.infer<typeof DeploymentRequest>;

const POLL_MS = 3_000;
const FIRST = 20;

export function Requests({ id }: { id: string }) {
  const list = useList<Row>(`/v1/deployments/${encodeURIComponent(id)}/requests?limit=100`, { everyMs: POLL_MS });
  const [isAll, showAll] = useState(false);
  return (
    <Card
      class="deployments-requests"
      title="Requests"
      note="newest first"
      side={<a href={`/traces?deployment_id=${encodeURIComponent(id)}`}>Traces</a>}
    >
      <Loaded of={{ ...list, data: list.items }}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty
              title="No request yet"
              action={may("inference", false) && <LinkButton href={`/playground?cols=${id}`}>Try it</LinkButton>}
            >
              Or send one with the code below Connect.
            </Empty>
          ) : (
            <Table
              label="Requests"
              rows={isAll ? rows : rows.slice(0, FIRST)}
              keyOf={(row) => row.id}
              columns={[
                { title: "When", cell: (row) => <Time at={row.created_at} /> },
                { title: "Status", cell: (row) => <Status row={row} /> },
                { title: "Took", cell: (row) => duration(row.latency_ms / 1000), numeric: true },
                { title: "Tokens in", cell: (row) => count(row.prompt_tokens), numeric: true, wide: true },
                { title: "Tokens out", cell: (row) => count(row.completion_tokens), numeric: true, wide: true },
                { title: "Id", cell: (row) => <code>{row.id}</code>, wide: true },
              ]}
            />
          )
        }
      </Loaded>
      {isAll || (list.items?.length ?? 0) <= FIRST ? (
        <More list={list} />
      ) : (
        <More list={{ hasMore: true, more: async () => showAll(true) }} />
      )}
    </Card>
  );
}

const Status = ({ row: { status_code: status, error_message: error } }: { row: Row }) => (
  <span class="state">
    <Pill tone={status < 400 ? "good" : status === 499 ? "idle" : "bad"}>
      {status === 499 ? "Client left" : String(status)}
    </Pill>
    {error !== null && status !== 499 && <small>{error}</small>}
  </span>
);
