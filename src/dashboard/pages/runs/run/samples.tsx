/** The answers of the model in a step, best advantage first. The step is in the address; arrow keys move it. */

import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../../../lib/error_text.ts";
import { isJobOver } from "../../../../lib/training/job_status.ts";
import { ApiError } from "../../../data/api.ts";
import { connection } from "../../../data/events.ts";
import { count, number } from "../../../data/format.ts";
import { Card } from "../../../kit/card.tsx";
import { Diff } from "../../../kit/diff.tsx";
import { Empty, Skeleton } from "../../../kit/page.tsx";
import { Pill } from "../../../kit/pill.tsx";
import { queryOf, setQuery } from "../../../shell/router.ts";
import { promptText, SampleView } from "../sample.tsx";
import type { JobSample, TrainingJob } from "../types.ts";
import { byAdvantage, promptKey, samplesOf, useEarlier } from "./earlier.ts";

export function Samples({ job }: { job: TrainingJob }) {
  const last = Math.max(1, job.progress.step);
  const pinned = stepOf(last);
  const isPinned = pinned !== undefined;
  const step = pinned ?? last;
  const { samples, error } = useSamples(job.id, job.progress.step === 0 ? 0 : step, isJobOver(job.status));
  const earlier = useEarlier(job.id, samples);
  useArrows(last);
  return (
    <Card
      title="What it wrote"
      note={
        isPinned
          ? "best advantage first; the difference is to the previous answer to the same prompt"
          : "the latest step, best advantage first; the difference is to the previous answer to the same prompt"
      }
    >
      <Slider step={step} last={last} isPinned={isPinned} />
      {error && <p class="bad">{error}</p>}
      {!error && !samples && <Skeleton height={600} />}
      {samples?.length === 0 && (
        <Empty title={`No samples of step ${step}`}>Samples are kept for runs that write answers (GRPO).</Empty>
      )}
      {samples && samples.length > 0 && (
        <ol class="runs-samples runs-steady">
          {byAdvantage(samples).map((sample) => (
            <Sample
              key={sample.id}
              sample={sample}
              earlier={earlier.found.get(promptKey(sample))}
              isDone={earlier.isDone}
            />
          ))}
        </ol>
      )}
    </Card>
  );
}

/** The step in the address; undefined: the latest one. */
function stepOf(last: number): number | undefined {
  const wanted = Number(queryOf("step") ?? Number.NaN);
  return Number.isInteger(wanted) && wanted >= 1 ? Math.min(wanted, last) : undefined;
}

/**
 * The samples of the step before stay visible until those of the next one are there, also while the connection is
 * lost. Step 0: there is none yet. A run that goes on may say its step before it stores the samples.
 */
function useSamples(id: string, step: number, isEnded: boolean) {
  const [state, setState] = useState<{ of: string; samples?: readonly JobSample[]; error?: string }>();
  const isLive = connection.value === "live"; // what the lost connection prevented is loaded when it is back
  useEffect(() => {
    if (step === 0) return;
    let isLeft = false;
    const fail = (cause: unknown) => {
      const isLost = cause instanceof ApiError && cause.status === 0;
      setState((before) => (isLost && before?.of === id ? before : { of: id, error: errorText(cause) }));
    };
    const show = (samples: readonly JobSample[]) =>
      setState((before) => (samples.length === 0 && !isEnded && before?.of === id ? before : { of: id, samples }));
    samplesOf(id, step).then(
      (samples) => isLeft || show(samples),
      (cause: unknown) => isLeft || fail(cause),
    );
    return () => {
      isLeft = true;
    };
  }, [id, step, isLive, isEnded]);
  return { samples: state?.of === id ? state.samples : undefined, error: state?.error };
}

function Slider({ step, last, isPinned }: { step: number; last: number; isPinned: boolean }) {
  return (
    <div class="runs-slider">
      <label for="runs-step">
        Step <b>{step}</b>
      </label>
      <input
        id="runs-step"
        type="range"
        min={1}
        max={Math.max(last, 1)}
        value={step}
        aria-label="Step"
        onInput={(event) => setQuery({ step: event.currentTarget.value })}
      />
      <span class="n muted">of {count(last)}</span>
      {isPinned && (
        <button type="button" class="btn quiet" onClick={() => setQuery({ step: undefined })}>
          Latest
        </button>
      )}
    </div>
  );
}

/** Left and right move the step, wherever the focus is, except in a field. The slider itself has its own keys. */
function useArrows(last: number) {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const move = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
      const { target } = event;
      const isField = target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
      if (move === 0 || isField || event.altKey || event.ctrlKey || event.metaKey) return;
      if (document.querySelector("dialog[open]")) return;
      event.preventDefault();
      const step = stepOf(last) ?? last; // from the address: the page may not be drawn yet after the last key
      setQuery({ step: Math.min(last, Math.max(1, step + move)) });
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [last]);
}

type SampleProps = { sample: JobSample; earlier: JobSample | undefined; isDone: boolean };

const Sample = ({ sample, earlier, isDone }: SampleProps) => (
  <SampleView
    figure={sample.advantage === null ? "–" : `${sample.advantage > 0 ? "+" : ""}${number(sample.advantage)}`}
    tone={sample.advantage === null || sample.advantage === 0 ? undefined : sample.advantage > 0 ? "good" : "bad"}
    figureLabel="advantage"
    prompt={promptText(sample.prompt)}
    sample={sample}
    after={
      <>
        {sample.truncated && <Pill tone="warn">cut off</Pill>}
        <small class="muted">{whence(sample, earlier, isDone)}</small>
      </>
    }
  >
    <Diff before={earlier?.completion} after={sample.completion} />
  </SampleView>
);

function whence({ completion }: JobSample, earlier: JobSample | undefined, isDone: boolean): string {
  if (earlier?.completion === completion) return `the same as in step ${earlier.step}`;
  if (earlier) return `compared with step ${earlier.step}, reward ${number(earlier.reward)}`;
  return isDone ? "no earlier sample of this prompt" : "";
}
