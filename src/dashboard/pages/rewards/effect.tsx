/** The effect of the code in the editor on stored samples of a run. */
import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import { count, number, percent, plural } from "../../data/format.ts";
import { spread } from "../../data/spread.ts";
import { Button } from "../../kit/button.tsx";
import { Card, Stat } from "../../kit/card.tsx";
import { Chart } from "../../kit/chart/chart.tsx";
import { Empty } from "../../kit/page.tsx";
import { type Histogram as Data, flipsOf, histogramOf, meanOf, type Scored, sameShare } from "./compare.ts";
import { type Code, type Outcome, samplesAt, score } from "./scoring.ts";

export function Effect({ outcome, job, code }: { outcome: Outcome; job: TrainingJob; code: Code }) {
  const { scored, withoutRow, faults } = outcome;
  const flips = flipsOf(scored);
  const [oldMean, newMean] = [meanOf(scored.map(({ old }) => old)), meanOf(scored.map(({ now }) => now))];
  if (scored.length === 0)
    return (
      <Card>
        <Empty title="No samples at this step">
          Choose another step, or a run that keeps samples (method grpo or rloo).
        </Empty>
      </Card>
    );
  return (
    <>
      <div class="grid stats rewards-stats">
        <Stat label="Run's mean" value={number(oldMean)} />
        <Stat label="This code's mean" value={number(newMean)} change={changeOf(oldMean, newMean)} />
        <Stat
          label="Equal groups"
          value={percent(sameShare(scored, "now"))}
          change={sameShare(scored, "old") === null ? undefined : `was ${percent(sameShare(scored, "old"))}`}
        />
        <Stat label="Failed" value={count(faults.length)} change={`of ${count(scored.length)}`} />
      </div>
      <Card title="Rewards" note={plural(scored.length, "sample")}>
        <Histogram of={histogramOf(scored)} />
        {withoutRow > 0 && (
          <p class="muted">
            {plural(withoutRow, "sample")} without a row in the dataset: the code gets only prompt and completion there.
          </p>
        )}
      </Card>
      <Curve job={job} code={code} />
      <Card title="Ranks that flip" note={flips.length === 0 ? "none" : plural(flips.length, "sample")}>
        {flips.length === 0 && (
          <p class="muted">Every answer keeps its rank among the answers to its prompt, or of the step.</p>
        )}
        <div class="stack">
          {flips.slice(0, 20).map(({ sample, from, to, of }, i) => (
            <FlipRow key={i} sample={sample} text={`rank ${from} → ${to} of ${of}`} up={to < from} />
          ))}
        </div>
      </Card>
    </>
  );
}

const changeOf = (old: number | null, now: number | null) =>
  old === null || now === null || old === now ? undefined : `${now >= old ? "+" : ""}${number(now - old)}`;

const FlipRow = ({ sample, text, up }: { sample: Scored; text: string; up: boolean }) => (
  <div class="rewards-flip">
    <small>
      <b class={up ? "good" : "bad"}>{text}</b>
      {` · reward ${number(sample.old)} → ${number(sample.now)}`}
    </small>
    <pre class="text">{typeof sample.prompt === "string" ? sample.prompt : JSON.stringify(sample.prompt)}</pre>
    <pre class="text">{sample.completion}</pre>
  </div>
);

const MOST_STEPS = 12;
type Point = { step: number; old: number | null; now: number | null };

/** The mean reward of several steps, as it was and as it would have been for the same answers. */
function Curve({ job, code }: { job: TrainingJob; code: Code }) {
  const [points, setPoints] = useState<readonly Point[]>([]);
  const [error, setError] = useState<string>();
  const [stop, setStop] = useState<AbortController>();
  useEffect(() => {
    setPoints([]);
    setStop(undefined);
  }, [job.id, code.source, code.language]);
  useEffect(() => () => stop?.abort(), [stop]);
  const steps = spread(job.progress.step, MOST_STEPS).reverse();
  const draw = async () => {
    const control = new AbortController();
    setStop(control);
    setError(undefined);
    const means: Point[] = [];
    try {
      for (const step of steps) {
        const samples = await samplesAt(job, step, control.signal);
        if (samples.length === 0) continue;
        const { scored } = await score(job, samples, code, control.signal);
        means.push({ step, old: meanOf(scored.map(({ old }) => old)), now: meanOf(scored.map(({ now }) => now)) });
        setPoints([...means]);
      }
    } catch (cause) {
      if (!control.signal.aborted) setError(errorText(cause));
    }
  };
  return (
    <Card
      title="The curve that would have been"
      side={<Button onClick={draw}>{`Score ${plural(steps.length, "step")}`}</Button>}
    >
      {error !== undefined && (
        <p class="bad" role="alert">
          {error}
        </p>
      )}
      {points.length === 0 ? (
        <p class="muted">The same answers, scored by this code. A run with it would have given other answers.</p>
      ) : (
        <Chart
          label="Mean reward by step, as it was and with this code"
          x={points.map(({ step }) => step)}
          series={[
            { label: "Run", values: points.map(({ old }) => old), token: "--c5" },
            { label: "This code", values: points.map(({ now }) => now), token: "--c1" },
          ]}
          xLabel="step"
          height={180}
        />
      )}
    </Card>
  );
}

/** Two histograms over the same bins: the run's rewards behind, those of the code in front. */
function Histogram({ of: { edges, old, now } }: { of: Data }) {
  const most = Math.max(1, ...old, ...now);
  const [low, high] = [edges[0], edges.at(-1)];
  const share = (n: number | undefined) => `${((n ?? 0) / most) * 100}%`;
  if (edges.length === 0) return <p class="muted">No sample has a reward.</p>;
  return (
    <figure class="rewards-histogram">
      <figcaption class="legend">
        <span>
          <i class="old" />
          Run
        </span>
        <span>
          <i class="now" />
          This code
        </span>
      </figcaption>
      <div class="bars">
        {old.map((n, i) => {
          const range = `${number(edges[i])} to ${number(edges[i + 1])}`;
          return (
            <div key={range} title={`${range}: run ${n}, this code ${now[i] ?? 0}`}>
              <i class="old" style={{ height: share(n) }} />
              <i class="now" style={{ height: share(now[i]) }} />
            </div>
          );
        })}
      </div>
      <div class="ends muted n">
        <span>{number(low)}</span>
        <span>{number(high)}</span>
      </div>
      <span class="hidden">{`Counts by bin. Run: ${old.join(", ")}. This code: ${now.join(", ")}.`}</span>
    </figure>
  );
}
