/** Requests, tokens, times, queue and cache of a deployment over time, and its replicas now. */
import { useMemo } from "preact/hooks";
import type { Gpu } from "../../../resources/machines/gpu/schema.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { DeploymentLive, DeploymentTraffic } from "../../../resources/serving/deployments/traffic/schema.ts";
import { bytes, count, duration, money, NONE, number, percent } from "../../data/format.ts";
import { type Page, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { LinkButton } from "../../kit/button.tsx";
import { Card, Stat } from "../../kit/card.tsx";
import { Chart } from "../../kit/chart/chart.tsx";
import { Empty, Loaded, Skeleton } from "../../kit/page.tsx";
import { Pill, State } from "../../kit/pill.tsx";
import { Table } from "../../kit/table.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { cachedShare, plotsOf } from "./plots.ts";

const PERIODS = [
  ["1", "1 h"],
  ["6", "6 h"],
  ["24", "24 h"],
  ["168", "7 d"],
  ["720", "30 d"],
] as const;
const LIVE_MS = 3_000;
const SLOW_MS = 30_000;
const HEIGHT_PX = 190;

const pathOf = (id: string) => `/v1/deployments/${encodeURIComponent(id)}`;

/** The chosen period in hours. */
const usePeriod = () => {
  const hours = queryOf("hours");
  return PERIODS.find(([value]) => value === hours)?.[0] ?? "1";
};

export function Traffic({ deployment }: { deployment: Deployment }) {
  const { id, name, total_requests: all } = deployment;
  const hours = usePeriod();
  const everyMs = hours === "1" ? LIVE_MS : SLOW_MS;
  const traffic = useResource<DeploymentTraffic>(`${pathOf(id)}/traffic?hours=${hours}`, { everyMs });
  const live = useResource<DeploymentLive>(`${pathOf(id)}/live`, { everyMs: LIVE_MS });
  return (
    <div class="grid">
      <fieldset class="deployments-period" aria-label="Period">
        {PERIODS.map(([value, shown]) => (
          <button
            key={value}
            type="button"
            class="btn quiet"
            aria-pressed={value === hours}
            onClick={() => setQuery({ hours: value === PERIODS[0][0] ? undefined : value })}
          >
            {shown}
          </button>
        ))}
      </fieldset>
      <Loaded of={traffic} skeleton={<Skeleton height={760} />}>
        {(loaded) => (
          <>
            <Figures deployment={deployment} traffic={loaded} live={live.data} />
            {loaded.total.requests === 0 ? (
              <Card>
                <Empty
                  title={all === 0 ? "No request yet" : "No request in this period"}
                  action={
                    may("inference", false) && <LinkButton href={`/playground?cols=${id}`}>Try {name}</LinkButton>
                  }
                >
                  {all === 0
                    ? "The first one draws the curves of this page."
                    : `There were ${count(all)} requests before: choose a longer period.`}
                </Empty>
              </Card>
            ) : (
              <Plots traffic={loaded} />
            )}
          </>
        )}
      </Loaded>
      <Loaded of={live} skeleton={<Skeleton height={180} />}>
        {(loaded) => <Replicas live={loaded} deployment={deployment} />}
      </Loaded>
    </div>
  );
}

const time = (ms: number | undefined) => duration(ms === undefined ? undefined : ms / 1000);

type FiguresProps = { deployment: Deployment; traffic: DeploymentTraffic; live: DeploymentLive | undefined };

function Figures({ deployment: { cost_per_hour_usd: rate, total_cost_usd: cost }, traffic, live }: FiguresProps) {
  const { total } = traffic;
  const failed = total.requests === 0 ? null : total.failed_requests / total.requests;
  const { first_token_ms: first, answer_ms: answer } = total;
  const kept = live?.prefix_cache;
  return (
    <div class="grid stats">
      <Stat label="Requests" value={count(total.requests)} change={`${number(total.requests / total.seconds)}/s`} />
      <Stat
        label="Tokens generated"
        value={count(total.completion_tokens)}
        change={`${number(total.completion_tokens / total.seconds)}/s`}
      />
      <Stat label="First token p50" value={time(first?.p50)} change={first ? `p95 ${time(first.p95)}` : undefined} />
      <Stat
        label="Whole answer p50"
        value={time(answer?.p50)}
        change={answer ? `p95 ${time(answer.p95)}` : undefined}
      />
      <Stat label="Failed" value={percent(failed, 1)} tone={failed !== null && failed > 0.05 ? "bad" : undefined} />
      <Stat
        label="From the cache"
        value={percent(cachedShare(total))}
        change={kept && kept.limit_bytes > 0 ? `${bytes(kept.bytes)} on the disk` : undefined}
      />
      <Stat
        label="Requests now"
        value={count(live?.open_requests)}
        change={live && live.waiting_requests > 0 ? `${count(live.waiting_requests)} wait` : undefined}
      />
      <Stat label="Cost so far" value={money(cost)} change={rate ? `${money(rate)}/h` : undefined} />
    </div>
  );
}

function Plots({ traffic }: { traffic: DeploymentTraffic }) {
  const plots = useMemo(() => plotsOf(traffic), [traffic]);
  return (
    <Card
      title="Over time"
      note={`each point is ${duration(traffic.step_seconds)}; a request counts when its answer ends`}
    >
      <div class="deployments-plots">
        {plots.map(({ key, title, unit, x, series, format }) => (
          <div key={key}>
            <h3>{title}</h3>
            <Chart
              label={`${title} over time`}
              x={x}
              series={series}
              kind="time"
              xLabel="time"
              yLabel={unit}
              format={format}
              fromZero
              height={HEIGHT_PX}
              sync="deployment traffic"
            />
          </div>
        ))}
      </div>
    </Card>
  );
}

type Replica = DeploymentLive["replicas"][number];

function Replicas({
  live: { replicas },
  deployment: { region, parked },
}: {
  live: DeploymentLive;
  deployment: Deployment;
}) {
  const gpus = useResource<Page<Gpu>>(may("training") ? "/v1/gpu?limit=100" : null, { everyMs: SLOW_MS }).data?.data;
  if (replicas.length === 0)
    return (
      <Card title="Replicas">
        <Empty title={parked ? "Parked: no replica holds memory" : "No replica runs"}>
          {parked ? "The next request wakes it." : "Its log says what it waits for, or why it ended."}
        </Empty>
      </Card>
    );
  return (
    <Card title="Replicas" note="now; memory is measured once the model is loaded">
      <Table
        label="Replicas"
        rows={replicas}
        keyOf={({ id }) => id}
        columns={[
          { title: "Replica", cell: ({ id }) => `No. ${id.split("/").at(-1) ?? id}` },
          { title: "State", cell: (replica) => <ReplicaState replica={replica} /> },
          {
            title: "Requests",
            cell: ({ open_requests: open, sequences }) => `${count(open)} of ${count(sequences)} at once`,
            numeric: true,
          },
          { title: "Device", cell: ({ devices }) => deviceText(devices, gpus, region), wide: true },
          { title: "Memory", cell: memoryText, numeric: true },
          {
            title: "Shares its model with",
            cell: ({ shared_with: n }) => (n === 0 ? NONE : `${count(n)} ${n === 1 ? "deployment" : "deployments"}`),
            wide: true,
          },
        ]}
      />
    </Card>
  );
}

const ReplicaState = ({ replica: { state, stage, progress } }: { replica: Replica }) => {
  if (state === "ready") return <State status="ready" />;
  if (state === "leaving") return <Pill tone="idle">Ending</Pill>;
  return <State status="starting" detail={`${stage} ${percent(progress)}`} />;
};

function deviceText(devices: readonly string[], gpus: readonly Gpu[] | undefined, region: string): string {
  if (region !== "local") return "in its region";
  if (devices.length === 0) return "main memory";
  return devices.map((id) => gpus?.find((gpu) => gpu.id === id)?.name ?? id).join(", ");
}

function memoryText({ model_bytes: model, adapter_bytes: adapter }: Replica): string {
  if (model === 0) return adapter === 0 ? "shared" : `shared, adapter ${bytes(adapter)}`;
  return adapter === 0 ? bytes(model) : `${bytes(model)} + adapter ${bytes(adapter)}`;
}
