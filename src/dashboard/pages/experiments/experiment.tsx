import { useState } from "preact/hooks";
import type { Dataset } from "../../../resources/data/datasets/schema.ts";
import type { ExperimentSummary } from "../../../resources/quality/experiments/results_schema.ts";
import type { Experiment } from "../../../resources/quality/experiments/schema.ts";
import { api } from "../../data/api.ts";
import { count, plural } from "../../data/format.ts";
import { areAnswered, deleteResource, reload, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card, Facts } from "../../kit/card.tsx";
import { Ref } from "../../kit/content.tsx";
import { Confirm } from "../../kit/dialog.tsx";
import { Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { Elapsed, Time } from "../../kit/time.tsx";
import { navigate } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import type { PageProps } from "../spec.ts";
import { Items } from "./items.tsx";
import { detailOf, isRunning, Progress } from "./progress.tsx";
import { Summary } from "./summary.tsx";

const RUNNING_MS = 1_500;

export function Page({ params }: PageProps) {
  const path = `/v1/experiments/${params["id"]}`;
  const [isLive, setIsLive] = useState(true);
  const live = { events: ["experiment."], everyMs: isLive ? RUNNING_MS : undefined };
  const experiment = useResource<Experiment>(path, live);
  const summary = useResource<ExperimentSummary>(`${path}/summary`, live);
  const data = areAnswered(experiment, summary) ? experiment.data : undefined;
  if (data && isLive !== isRunning(data)) setIsLive(isRunning(data));
  return (
    <Frame
      title={data?.name ?? "Experiment"}
      above={[["Experiments", "/experiments"]]}
      beside={data && <State status={data.status} detail={detailOf(data)} />}
      purpose={data ? purpose(data) : "\u00a0"}
      actions={data && may("training", false) && <Actions experiment={data} path={path} />}
    >
      <Loaded of={{ ...experiment, data }} skeleton={<Skeleton height={420} />}>
        {(loaded) => (
          <div class="grid">
            {loaded.error !== null && (
              <div class="errorbox" role="alert">
                <p>
                  <b>The experiment failed</b>
                  <span>{loaded.error}</span>
                </p>
              </div>
            )}
            {(isRunning(loaded) || loaded.progress.failed > 0) && <Progress of={loaded.progress} />}
            <div class="grid two">
              <div class="grid">
                <Loaded of={summary} skeleton={<Skeleton height={200} />}>
                  {(figures) => <Summary summary={figures} experiment={loaded} />}
                </Loaded>
              </div>
              <About experiment={loaded} />
            </div>
            <Items experiment={loaded} />
          </div>
        )}
      </Loaded>
    </Frame>
  );
}

const purpose = ({ targets, row_count, baseline }: Experiment) =>
  `${plural(row_count, "row")}, ${plural(targets.length, "target")}, compared with ${baseline}`;

function Actions({ experiment, path }: { experiment: Experiment; path: string }) {
  const [isAsking, setIsAsking] = useState(false);
  const cancel = async () => {
    await attempt(() => api(`${path}/cancel`, { method: "POST" }), "Cancelled");
    await reload(path);
  };
  const remove = async () => {
    if ((await attempt(() => deleteResource(path), "Deleted")) === undefined) return;
    await reload("/v1/experiments?");
    navigate("/experiments");
  };
  if (isRunning(experiment)) return <Button onClick={cancel}>Cancel</Button>;
  return (
    <>
      <Button kind="danger" onClick={() => setIsAsking(true)}>
        Delete
      </Button>
      {isAsking && (
        <Confirm title="Delete this experiment?" verb="Delete" onConfirm={remove} onClose={() => setIsAsking(false)}>
          Its answers and scores are deleted too. The dataset stays.
        </Confirm>
      )}
    </>
  );
}

function About({ experiment }: { experiment: Experiment }) {
  const { dataset_id: id, snapshot, started_at, finished_at, params } = experiment;
  const dataset = useResource<Dataset>(`/v1/datasets/${id}`);
  const rows = [
    [
      "Dataset",
      <Ref key="d" page="/datasets/:id" id={id}>
        {dataset.data?.name ?? (dataset.error ? id : "…")}
      </Ref>,
    ] as const,
    ["Snapshot", snapshot.replace("@", "")] as const,
    ["Baseline", experiment.baseline] as const,
    ["Temperature", String(params.temperature)] as const,
    params.max_tokens !== undefined && (["Most tokens", count(params.max_tokens)] as const),
    ["Created", <Time key="m" at={experiment.created_at} />] as const,
    started_at !== null && (["Took", <Elapsed key="t" since={started_at} until={finished_at} />] as const),
  ];
  return (
    <Card title="About">
      <Facts rows={rows.filter((row) => row !== false)} />
    </Card>
  );
}
