import { useMemo } from "preact/hooks";
import { isJobOver } from "../../../../lib/training/job_status.ts";
import type { ApiError } from "../../../data/api.ts";
import { duration, money, NONE, number, percent, plural } from "../../../data/format.ts";
import { type Page as ListPage, useResource } from "../../../data/resource.ts";
import { Stat } from "../../../kit/card.tsx";
import { loadPlot } from "../../../kit/chart/chart.tsx";
import { ErrorBox, Page as Frame, Loaded, Skeleton } from "../../../kit/page.tsx";
import { State } from "../../../kit/pill.tsx";
import { reasonOf } from "../../home/recent_runs.tsx";
import type { PageProps } from "../../spec.ts";
import { alarmsOf } from "../alarms.ts";
import { hasReward, methodName } from "../methods.ts";
import { endsOf, recentMean } from "../series.ts";
import { type JobCheckpoint, type JobEvent, jobPath, type Point, type TrainingJob } from "../types.ts";
import { AfterPaint } from "../when_seen.tsx";
import { About } from "./about.tsx";
import { Actions } from "./actions.tsx";
import { ChartBar, MainChart, Panels } from "./charts.tsx";
import { useDrawTime, useLiveRun } from "./live.ts";
import { Log } from "./log.tsx";
import { Samples } from "./samples.tsx";
import { Checkpoints, Energy, Lock, Setup } from "./side.tsx";
import { System } from "./system.tsx";

void loadPlot(); // beside the requests for the run, not after them

export function Page({ params }: PageProps) {
  const id = params["id"] ?? "";
  return <Run key={id} id={id} />;
}

function Run({ id }: { id: string }) {
  const { job, points, error, log } = useLiveRun(id);
  const step = job.data?.progress.step ?? 0;
  const checkpoints = useResource<ListPage<JobCheckpoint>>(`${jobPath(id)}/checkpoints?limit=100`, {
    events: ["job."],
    ...(job.data && !isJobOver(job.data.status) ? { everyMs: 3_000 } : {}),
  });
  const events = useResource<ListPage<JobEvent>>(`${jobPath(id)}/events?limit=100`, {
    events: ["job."],
    ...(job.data && !isJobOver(job.data.status) ? { everyMs: 3_000 } : {}),
  });
  const trainingJob = job.data;
  const above = [["Runs", "/runs"]] as const;
  const alarms = useMemo(() => alarmsOf(events.data?.data ?? [], points ?? []), [events.data, points]);
  const isReady = points !== undefined && (checkpoints.data ?? checkpoints.error) && (events.data ?? events.error);
  useDrawTime(trainingJob && isReady ? points : undefined);
  if (!trainingJob || !(isReady || error))
    return (
      <Frame title="Run" above={above}>
        <Loaded of={job} skeleton={<Waiting />}>
          {() => null}
        </Loaded>
      </Frame>
    );
  const saved = checkpoints.data?.data ?? [];
  return (
    <Frame
      title={trainingJob.output_name}
      beside={<State status={trainingJob.status} detail={detailOf(trainingJob)} />}
      purpose={
        (!trainingJob.error && reasonOf(trainingJob)) ||
        `${methodName(trainingJob.method)} of ${trainingJob.base_model}`
      }
      above={above}
      actions={<Actions job={trainingJob} checkpoints={saved} points={points ?? []} events={events.data?.data ?? []} />}
    >
      <div class="grid">
        {trainingJob.error && <p class="runs-reason bad">{trainingJob.error.message}</p>}
        <Stats job={trainingJob} points={points ?? []} />
        {error && !(isNoAnswer(error) && points) && <ErrorBox error={error} />}
        <div class="grid two runs-run">
          <div class="grid">
            <ChartBar points={points ?? NONE_YET} isEnded={isJobOver(trainingJob.status)} />
            <MainChart points={points ?? NONE_YET} alarms={alarms} isEnded={isJobOver(trainingJob.status)} />
            <AfterPaint>
              {hasReward(trainingJob.method) && (step > 0 || !isJobOver(trainingJob.status)) && (
                <Samples job={trainingJob} />
              )}
              <Log lines={log} id={id} isOver={isJobOver(trainingJob.status)} />
              <Panels points={points ?? NONE_YET} alarms={alarms} />
              <System job={trainingJob} />
            </AfterPaint>
          </div>
          <div class="grid">
            <AfterPaint>
              <About job={trainingJob} />
              <Setup job={trainingJob} />
              <Checkpoints job={trainingJob} checkpoints={checkpoints} />
              <Energy job={trainingJob} points={points ?? []} />
              <Lock job={trainingJob} />
            </AfterPaint>
          </div>
        </div>
      </div>
    </Frame>
  );
}

/** The note of the lost connection says it: the curves stay in their place. */
const isNoAnswer = ({ status }: ApiError) => status === 0;
const NONE_YET: readonly Point[] = []; // one array, so that it is not drawn again

const Waiting = () => (
  <div class="stack">
    <Skeleton height={74} />
    <Skeleton height={620} />
  </div>
);

/** "step 25 of 40 · 27 s left" */
function detailOf({ status, progress: { step, total_steps: total, eta_seconds: left } }: TrainingJob) {
  if (isJobOver(status)) return step > 0 ? plural(step, "step") : undefined;
  const parts = [total > 0 && step > 0 && `step ${step} of ${total}`, left !== null && `${duration(left)} left`];
  return parts.filter(Boolean).join(" · ") || undefined;
}

/** The metric that shows the progress of a method, and its name. */
const HEADLINES: Readonly<Record<string, readonly [key: string, label: string]>> = {
  grpo: ["reward", "Reward"],
  sft: ["loss", "Loss"],
  dpo: ["rewards/margins", "Reward margin"],
  rloo: ["reward", "Reward"],
  distill: ["teacher_kl", "Distance to the teacher"],
  kto: ["rewards/margins", "Reward margin"],
  orpo: ["rewards/margins", "Reward margin"],
};

/** Methods that count right tokens or right choices. */
const COUNTED: readonly string[] = ["sft", "dpo", "kto", "orpo"];

function Stats({ job, points }: { job: TrainingJob; points: readonly Point[] }) {
  const change = (key: string, lessIsBetter = false) => {
    const ends = endsOf(points, key);
    if (!ends) return {};
    const by = ends.last - ends.first;
    const tone: "good" | "bad" | undefined = by === 0 ? undefined : by > 0 === lessIsBetter ? "bad" : "good";
    return { value: number(ends.last), change: `${by > 0 ? "+" : ""}${number(by)}`, tone };
  };
  const last = (key: string) => endsOf(points, key)?.last;
  const [name, label] = HEADLINES[job.method] ?? [];
  const right = last("mean_token_accuracy") ?? last("rewards/accuracies");
  // from the start, so that the figures beside it stay where they are
  const isRightShown = right !== undefined || (COUNTED.includes(job.method) && !isJobOver(job.status));
  const has = (key: string) => last(key) !== undefined;
  return (
    <div class="grid stats">
      {name && label && <Stat label={label} value={NONE} {...change(name, job.headline_metric?.better === "lower")} />}
      {has("eval_reward") && <Stat label="Reward on held-out rows" value={NONE} {...change("eval_reward")} />}
      {isRightShown && <Stat label="Right" value={percent(right, 1)} />}
      {has("kl") && <Stat label="KL to base" value={number(last("kl"))} />}
      {hasReward(job.method) && (
        <Stat label="Answer length" value={number(last("completions/mean_length"))} change="tokens" />
      )}
      {name && <Stat label="Speed" value={number(recentMean(points, "tokens_per_second"))} change="tokens/s" />}
      <Stat label="Cost" value={money(job.cost_usd)} />
      <Stat label="Energy" value={number(job.energy_wh)} change={job.energy_wh === null ? "not measured" : "Wh"} />
    </div>
  );
}
