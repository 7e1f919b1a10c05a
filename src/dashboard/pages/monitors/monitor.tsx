import { useMemo, useState } from "preact/hooks";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { Monitor, MonitorChange, MonitorTest } from "../../../resources/watching/monitors/schema.ts";
import { api } from "../../data/api.ts";
import { duration, NONE, plural } from "../../data/format.ts";
import { deleteResource, reload, useList, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card, Facts } from "../../kit/card.tsx";
import { Ref } from "../../kit/content.tsx";
import { Confirm } from "../../kit/dialog.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Elapsed, Time } from "../../kit/time.tsx";
import { navigate } from "../../shell/router.ts";
import { attempt, toast } from "../../shell/toasts.tsx";
import type { PageProps } from "../spec.ts";
import { type Alarm, alarmsOf } from "./alarms.ts";
import { Editor } from "./editor.tsx";
import { Severity } from "./severity.tsx";
import { Silence } from "./silence.tsx";
import { ValueChart } from "./value_chart.tsx";
import { inUnit, METRICS, rule, SEVERITIES } from "./words.ts";

export function Page({ params }: PageProps) {
  const path = `/v1/monitors/${params["id"]}`;
  const monitor = useResource<Monitor>(path, { events: ["monitor."], everyMs: 2_000 });
  const history = useList<MonitorChange>(`${path}/history?limit=100`, { events: ["monitor."] });
  const { data } = monitor;
  const alarms = useMemo(() => alarmsOf(history.items ?? []), [history.items]);
  const [isEditing, setIsEditing] = useState(false);
  return (
    <Frame
      title={data?.name ?? "Monitor"}
      above={[["Monitors", "/monitors"]]}
      beside={data && <Severity of={data} reason={false} />}
      purpose={data ? rule(data) : "\u00a0"}
      actions={
        data && may("training", false) && <Actions monitor={data} path={path} onEdit={() => setIsEditing(true)} />
      }
    >
      <Loaded of={monitor} skeleton={<Skeleton height={420} />}>
        {(loaded) => (
          <div class="grid two">
            <div class="grid">
              <Card title={METRICS[loaded.metric].name} note={inUnit(loaded.value, loaded.unit)}>
                <ValueChart monitor={loaded} alarms={alarms} />
              </Card>
              <Card title="Alarms">
                <Loaded of={{ ...history, data: history.items }}>
                  {() => <Alarms alarms={alarms} unit={loaded.unit} />}
                </Loaded>
                <More list={history} />
              </Card>
            </div>
            <div class="grid">
              <Silence monitor={loaded} path={path} />
              <About monitor={loaded} />
            </div>
          </div>
        )}
      </Loaded>
      {data && isEditing && <Editor monitor={data} onClose={() => setIsEditing(false)} />}
    </Frame>
  );
}

function Actions({ monitor, path, onEdit }: { monitor: Monitor; path: string; onEdit: () => void }) {
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
      <Button onClick={test}>Evaluate now</Button>
      <Button icon="edit" onClick={onEdit}>
        Edit
      </Button>
      <Button kind="danger" onClick={() => setIsAsking(true)}>
        Delete
      </Button>
      {isAsking && (
        <Confirm title="Delete this monitor?" verb="Delete" onConfirm={remove} onClose={() => setIsAsking(false)}>
          Its curve and its history are deleted too, and it sends no more events.
        </Confirm>
      )}
    </>
  );
}

const SENT = { webhooks: "to webhooks", muted: "no, muted", no: "no" } as const satisfies Record<Alarm["sent"], string>;

const Alarms = ({ alarms, unit }: { alarms: readonly Alarm[]; unit: string }) =>
  alarms.length === 0 ? (
    <Empty title="No alarm yet">An alarm begins when the value passes a threshold, and ends when it is back.</Empty>
  ) : (
    <Table
      label="Alarms"
      rows={alarms}
      keyOf={({ id }) => id}
      columns={[
        {
          title: "Alarm",
          cell: ({ severity }) => <Pill tone={SEVERITIES[severity][1]}>{SEVERITIES[severity][0]}</Pill>,
        },
        { title: "Value", cell: ({ value }) => inUnit(value, unit), numeric: true },
        { title: "Began", cell: ({ began }) => (began === null ? "earlier" : <Time at={began} />) },
        { title: "Ended", cell: ({ ended }) => (ended === null ? <b>still on</b> : <Time at={ended} />) },
        {
          title: "Lasted",
          cell: ({ began, ended }) => (began === null ? NONE : <Elapsed since={began} until={ended} />),
          numeric: true,
          wide: true,
        },
        { title: "Sent", cell: ({ sent }) => SENT[sent], wide: true },
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
  ];
  return (
    <Card title="About">
      <Facts rows={rows.filter((row) => row !== false && row !== null)} />
    </Card>
  );
}
