import { useState } from "preact/hooks";
import type { z } from "zod";
import type {
  Deployment,
  DeploymentMetrics,
  DeploymentRequest,
} from "../../../resources/serving/deployments/schema.ts";
import { count, duration, money, percent } from "../../data/format.ts";
import { useList, useResource } from "../../data/resource.ts";
import { Card, Stat } from "../../kit/card.tsx";
import { Sparkline } from "../../kit/chart/sparkline.tsx";
import { Empty, Loaded } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { quantile } from "./words.ts";

type Metrics = z.infer<typeof DeploymentMetrics>;
type Row = z.infer<typeof DeploymentRequest>;

const POLL_MS = 3_000;
const FIRST = 20;
const listPath = (id: string) => `/v1/deployments/${encodeURIComponent(id)}/requests?limit=100`;

export function Figures({ deployment: { id, cost_per_hour_usd: rate } }: { deployment: Deployment }) {
  const metrics = useResource<Metrics>(`/v1/deployments/${encodeURIComponent(id)}/metrics`, { everyMs: POLL_MS }).data;
  const times = (useList<Row>(listPath(id), { everyMs: POLL_MS }).items ?? [])
    .filter(({ status_code: status }) => status < 400)
    .slice(0, 100)
    .map(({ latency_ms: ms }) => ms);
  const seconds = (share: number) => {
    const ms = quantile(times, share);
    return duration(ms === undefined ? undefined : ms / 1000);
  };
  return (
    <div class="grid stats deployments-figures">
      <Stat label="Requests" value={count(metrics?.total_requests)} />
      <Stat label="Latency p50" value={seconds(0.5)} />
      <Stat label="Latency p95" value={seconds(0.95)} />
      <Stat
        label="Failed"
        value={percent(metrics?.error_rate, 1)}
        tone={metrics && metrics.error_rate > 0.05 ? "bad" : undefined}
      />
      <Stat
        label="Tokens in and out"
        value={metrics ? `${count(metrics.total_prompt_tokens)} + ${count(metrics.total_completion_tokens)}` : "–"}
      />
      <Stat label="Cost" value={money(metrics?.total_cost_usd)} change={rate ? `${money(rate)}/h` : undefined} />
    </div>
  );
}

export function Requests({ id }: { id: string }) {
  const list = useList<Row>(listPath(id), { everyMs: POLL_MS });
  const [isAll, showAll] = useState(false);
  const latencies = (list.items ?? []).slice(0, 100).map(({ latency_ms: ms }) => ms);
  return (
    <Card
      class="deployments-requests"
      title="Requests"
      note="p50 and p95 are of the last 100 answers"
      side={
        latencies.length > 1 && <Sparkline values={latencies.toReversed()} label="Time of each request, oldest first" />
      }
    >
      <Loaded of={{ ...list, data: list.items }}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty title="No request yet">Try it in the playground, or send one with the code below Connect.</Empty>
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
      {isAll || latencies.length <= FIRST ? (
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
