import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import type { JobMetrics } from "../../../resources/training/training_jobs/views/schema.ts";
import { duration, NONE, number } from "../../data/format.ts";
import { type Page as ListPage, type Resource, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Sparkline } from "../../kit/chart/sparkline.tsx";
import { Empty, Loaded, Skeleton } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { hasPage, navigate } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import { Headline } from "../runs/headline.tsx";

export function RecentRuns({ jobs }: { jobs: Resource<ListPage<TrainingJob>> }) {
  return (
    <Card title="Recent runs" side={hasPage("/runs") && <a href="/runs">All runs</a>}>
      <Loaded of={jobs} skeleton={<Skeleton rows={6} />}>
        {({ data }) => (data.length === 0 ? <NoRun /> : <Runs rows={data} />)}
      </Loaded>
    </Card>
  );
}

const NoRun = () => (
  <Empty
    title="No run yet"
    action={
      may("training", false) && (
        <Button kind="primary" icon="play" onClick={train}>
          Train verk-tiny now
        </Button>
      )
    }
  >
    Teach the built-in model sums: it takes about a minute and needs no GPU.
  </Empty>
);

/** Loaded when it is pressed: most visits of this page do not need the rows. */
async function train() {
  const { startFirstRun } = await import("../setup/start_first_run.ts");
  const job = await attempt(startFirstRun);
  if (job) navigate(`/welcome?run=${job.id}`);
}

const Runs = ({ rows }: { rows: readonly TrainingJob[] }) => (
  <Table
    label="Recent runs"
    rows={rows}
    keyOf={({ id }) => id}
    href={hasPage("/runs/:id") ? ({ id }) => `/runs/${id}` : undefined}
    columns={[
      { title: "Name", cell: ({ output_name: name }) => name },
      { title: "State", cell: (job) => <State status={job.status} detail={progressOf(job)} reason={reasonOf(job)} /> },
      { title: "Curve", cell: (job) => <Curve job={job} />, wide: true },
      { title: "Result", cell: ({ headline_metric: metric }) => <Headline metric={metric} />, numeric: true },
      { title: "", cell: (job) => <When job={job} />, wide: true },
    ]}
  />
);

export const progressOf = ({
  status,
  progress: { step, total_steps: total },
}: Pick<TrainingJob, "status" | "progress">): string | undefined =>
  status === "running" && total > 0 ? `step ${step} of ${total}` : undefined;

/** Why the run waits or stopped early, or the first line of why it failed. */
export const reasonOf = ({
  queue_reason,
  pause_reason,
  stopped_early,
  error,
  load,
}: Pick<TrainingJob, "queue_reason" | "pause_reason" | "stopped_early" | "error" | "load">) =>
  error?.message.split("\n")[0] ?? load?.reason ?? queue_reason ?? pause_reason ?? stopped_early ?? undefined;

const When = ({ job }: { job: TrainingJob }) => {
  const left = job.status === "running" ? job.progress.eta_seconds : null;
  return <small>{left === null ? <Time at={job.created_at} /> : `${duration(left)} left`}</small>;
};

/** The headline metric of the run by step. It is loaded again with each new step. */
export function Curve({
  job: { id, headline_metric: metric, status, progress },
}: {
  job: Pick<TrainingJob, "id" | "headline_metric" | "status" | "progress">;
}) {
  const key = metric?.name ?? "reward";
  const path = `/v1/training_jobs/${id}/metrics?keys=${encodeURIComponent(key)}&max_points=100`;
  const wanted = progress.step > 0 ? path : null;
  const { data } = useResource<JobMetrics>(wanted, status === "running" ? { everyMs: 3_000 } : {});
  const values = (data?.data ?? []).flatMap((point) => point.values[key] ?? []);
  if (values.length === 0) return <span class="home-curve muted">{wanted === null || data ? NONE : ""}</span>;
  const label = `${key} from ${number(values[0])} to ${number(values.at(-1))}`;
  return <Sparkline values={values} label={label} token={status === "failed" ? "--c4" : "--c1"} />;
}
