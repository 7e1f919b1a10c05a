import { useState } from "preact/hooks";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { Monitor, MonitorChange, MonitorTest } from "../../../resources/watching/monitors/schema.ts";
import { api } from "../../data/api.ts";
import { duration, plural } from "../../data/format.ts";
import { deleteResource, reload, useList, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card, Facts } from "../../kit/card.tsx";
import { Ref } from "../../kit/content.tsx";
import { Confirm } from "../../kit/dialog.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { navigate } from "../../shell/router.ts";
import { attempt, toast } from "../../shell/toasts.tsx";
import type { PageProps } from "../spec.ts";
import { Mute } from "./mute.tsx";
import { Severity } from "./severity.tsx";
import { ValueChart } from "./value_chart.tsx";
import { inUnit, METRICS, rule, SEVERITIES } from "./words.ts";

export function Page({ params }: PageProps) {
  const path = `/v1/monitors/${params["id"]}`;
  const monitor = useResource<Monitor>(path, { events: ["monitor."], everyMs: 2_000 });
  const history = useList<MonitorChange>(`${path}/history?limit=100`, { events: ["monitor."] });
  const { data } = monitor;
  return (
    <Frame
      title={data?.name ?? "Monitor"}
      above={[["Monitors", "/monitors"]]}
      beside={data && <Severity of={data} reason={false} />}
      purpose={data ? rule(data) : "\u00a0"}
      actions={data && may("training", false) && <Actions monitor={data} path={path} />}
    >
      <Loaded of={monitor} skeleton={<Skeleton height={420} />}>
        {(loaded) => (
          <div class="grid two">
            <div class="grid">
              <Card title={METRICS[loaded.metric].name} note={inUnit(loaded.value, loaded.unit)}>
                <ValueChart monitor={loaded} />
              </Card>
              <Card title="Changes">
                <Loaded of={{ ...history, data: history.items }}>
                  {(rows) => <Changes rows={rows} unit={loaded.unit} />}
                </Loaded>
                <More list={history} />
              </Card>
            </div>
            <About monitor={loaded} />
          </div>
        )}
      </Loaded>
    </Frame>
  );
}

function Actions({ monitor, path }: { monitor: Monitor; path: string }) {
  const [isAsking, setIsAsking] = useState(false);
  const test = async () => {
    const now = await attempt(() => api<MonitorTest>(`${path}/test`, { method: "POST" }));
    if (now) toast(`Now ${inUnit(now.value, monitor.unit)}: ${SEVERITIES[now.level][0].toLowerCase()}`);
  };
  const remove = async () => {
    if ((await attempt(() => deleteResource(path), "Deleted")) === undefined) return;
    await reload("/v1/monitors");
    navigate("/monitors");
  };
  return (
    <>
      <Button onClick={test}>Test</Button>
      <Mute monitor={monitor} path={path} />
      <Button kind="danger" onClick={() => setIsAsking(true)}>
        Delete
      </Button>
      {isAsking && (
        <Confirm title="Delete this monitor?" verb="Delete" onConfirm={remove} onClose={() => setIsAsking(false)}>
          Its history is deleted too.
        </Confirm>
      )}
    </>
  );
}

const Changes = ({ rows, unit }: { rows: readonly MonitorChange[]; unit: string }) =>
  rows.length === 0 ? (
    <Empty title="No change yet">Each change of the state is listed here.</Empty>
  ) : (
    <Table
      label="Changes"
      rows={rows}
      keyOf={({ id }) => id}
      columns={[
        {
          title: "State",
          cell: ({ severity }) => <Pill tone={SEVERITIES[severity][1]}>{SEVERITIES[severity][0]}</Pill>,
        },
        { title: "Value", cell: ({ value }) => inUnit(value, unit), numeric: true },
        { title: "Before", cell: ({ previous_severity }) => SEVERITIES[previous_severity][0], wide: true },
        {
          title: "Notified",
          cell: ({ event, muted }) => (muted ? "No, muted" : event === null ? "No" : "Webhooks"),
          wide: true,
        },
        { title: "Time", cell: ({ created_at }) => <Time at={created_at} /> },
      ]}
    />
  );

function About({ monitor }: { monitor: Monitor }) {
  const { deployment_id: deployment, job_id: job, endpoint_id: endpoint, device, score } = monitor;
  const path = deployment !== null && may("inference") ? `/v1/deployments/${deployment}` : null;
  const named = useResource<Deployment>(path).data?.name;
  const rows = [
    deployment !== null &&
      ([
        "Deployment",
        <Ref key="d" page="/deployments/:id" id={deployment}>
          {named ?? deployment}
        </Ref>,
      ] as const),
    job !== null && (["Run", <Ref key="r" page="/runs/:id" id={job} />] as const),
    endpoint !== null && (["Webhook", <Ref key="w" page="/webhooks/:id" id={endpoint} />] as const),
    device !== null && (["Device", device] as const),
    score !== null && (["Score", score] as const),
    ["Window", duration(monitor.window_seconds)] as const,
    monitor.metric.match(/psi|ks/) &&
      (["Compared with", `${duration(monitor.reference_window_seconds)} before`] as const),
    ["Rises after", plural(monitor.evaluations, "evaluation")] as const,
    ["Recovers after", plural(monitor.recovery_evaluations, "evaluation")] as const,
    ["Needs", plural(monitor.min_samples, "observation")] as const,
    ["Without data", SEVERITIES[monitor.no_data][0]] as const,
    monitor.online_evaluation !== null &&
      ([
        "Scores by itself",
        `${monitor.online_evaluation.sample_percent} % with ${monitor.online_evaluation.evaluator}`,
      ] as const),
    ["Evaluated", <Time key="e" at={monitor.evaluated_at} />] as const,
    monitor.muted_until !== null && (["Muted", <Time key="m" at={monitor.muted_until} />] as const),
  ];
  return (
    <Card title="About">
      <Facts rows={rows.filter((row) => row !== false && row !== null)} />
    </Card>
  );
}
