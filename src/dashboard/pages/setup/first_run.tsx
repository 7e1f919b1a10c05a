/** "Train verk-tiny now": uploads sums, starts a training, and shows it live to its end. */
import { isJobOver } from "../../../lib/training/job_status.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import type { JobMetrics } from "../../../resources/training/training_jobs/views/schema.ts";
import { duration, NONE, number } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Card, Facts } from "../../kit/card.tsx";
import { Chart } from "../../kit/chart/chart.tsx";
import { Command } from "../../kit/copy.tsx";
import { Loaded, Skeleton } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { hasPage, setQuery } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";

import { playgroundHref } from "../playground/link.ts";
import { startFirstRun } from "./start_first_run.ts";

/** `id`: the training in the address, so that a reload and a link show it again. */
export const FirstRun = ({ id }: { id: string | undefined }) => (id === undefined ? <Offer /> : <Watch id={id} />);

const train = async () => {
  const job = await attempt(startFirstRun);
  if (job) setQuery({ run: job.id }, { push: true });
};

const Offer = () => (
  <Card title="Your first training">
    <div class="setup-offer">
      <p>
        Verk comes with a tiny language model. It gets less than half of the sums such as <b>47 + 8</b> right. Teach it
        with 710 questions and a reward for the right number. It takes about a minute, also without a GPU.
      </p>
      <Button kind="primary" icon="play" onClick={train}>
        Train verk-tiny now
      </Button>
    </div>
  </Card>
);

function Watch({ id }: { id: string }) {
  const path = `/v1/training_jobs/${encodeURIComponent(id)}`;
  const job = useResource<TrainingJob>(path, { events: ["job."], everyMs: 1_000 });
  const isOver = job.data !== undefined && isJobOver(job.data.status);
  const metrics = useResource<JobMetrics>(`${path}/metrics?keys=reward`, isOver ? {} : { everyMs: 1_000 });
  return (
    <Card title="Your first training" side={job.data && <State status={job.data.status} />}>
      <Loaded of={job} skeleton={<Skeleton height={300} />}>
        {(job) => (
          <div class="stack">
            <Progress job={job} />
            <Curve metrics={metrics.data} total={job.progress.total_steps} />
            <After job={job} />
          </div>
        )}
      </Loaded>
    </Card>
  );
}

function Progress({ job: { status, progress, queue_reason: waits, error } }: { job: TrainingJob }) {
  const { step, total_steps: total, eta_seconds: left, percent } = progress;
  return (
    <div class="stack">
      <div class="setup-progress">
        <progress value={percent} max={100} aria-label="Progress of the training" />
        <span class="n">{total > 0 ? `step ${step} of ${total}` : "getting ready"}</span>
      </div>
      <p class={status === "failed" ? "bad" : "muted"} role="status">
        {error?.message ?? (status === "queued" && waits) ?? ""}
        {status === "running" && left !== null && `${duration(left)} left`}
      </p>
    </div>
  );
}

function Curve({ metrics, total }: { metrics: JobMetrics | undefined; total: number }) {
  const points = metrics?.data ?? [];
  if (points.length < 2) return <Skeleton height={200} />;
  const values = points.map((point) => point.values["reward"] ?? null);
  return (
    <>
      <h3>Right answers by step</h3>
      <Chart
        label={`Share of right answers by step, ${number(values[0])} to ${number(values.at(-1))}, of ${total} steps`}
        x={points.map(({ step }) => step)}
        series={[{ label: "right answers", values }]}
        xLabel="step"
        xMax={total}
        height={200}
      />
    </>
  );
}

/** The result and the next steps. */
function After({ job }: { job: TrainingJob }) {
  const href = hasPage("/runs/:id") ? `/runs/${job.id}` : undefined;
  if (job.status !== "completed")
    return isJobOver(job.status) ? (
      <Button kind="primary" onClick={train}>
        Train again
      </Button>
    ) : null;
  return (
    <div class="stack">
      <Facts
        rows={[
          ["Right answers in the last step", job.headline_metric ? number(job.headline_metric.value) : NONE],
          ["Result", job.output_name],
        ]}
      />
      <p>Done. Talk to it, or serve it to other programs:</p>
      <Command text={`verk deploy ${job.id} --name ${job.output_name}`} />
      <div class="row">
        {hasPage("/playground") && (
          <LinkButton
            href={playgroundHref({ models: [job.id, job.base_model], prompt: "What is 47 + 8?" })}
            kind="primary"
          >
            Chat with it
          </LinkButton>
        )}
        {href && <LinkButton href={href}>Open the run</LinkButton>}
      </div>
    </div>
  );
}
