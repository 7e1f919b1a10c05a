/** The rewards that samples of one row got, run by run and step by step. */
import { number } from "../../data/format.ts";
import type { SampleOfRun } from "./samples.ts";

type Step = { step: number; mean: number };

/** The mean reward of each step, in order. Pure. */
export function stepsOf(samples: readonly SampleOfRun[]): Step[] {
  const bySteps = Map.groupBy(samples, ({ sample }) => sample.step);
  return [...bySteps]
    .map(([step, some]) => {
      const rewards = some.flatMap(({ sample: { reward } }) => (reward === null ? [] : [reward]));
      return { step, mean: rewards.reduce((sum, each) => sum + each, 0) / rewards.length };
    })
    .filter(({ mean }) => Number.isFinite(mean))
    .sort((a, b) => a.step - b.step);
}

export function Rewards({ samples }: { samples: readonly SampleOfRun[] }) {
  const runs = [...Map.groupBy(samples, ({ job }) => job.id).values()];
  const all = runs.flatMap(stepsOf).map(({ mean }) => mean);
  const [low, high] = [Math.min(0, ...all), Math.max(...all)];
  return (
    <ul class="datasets-rewards" aria-label="Mean reward by step">
      {runs.map((some) => {
        const steps = stepsOf(some);
        const [first, last] = [steps[0], steps.at(-1)];
        const { id, output_name: name } = some[0]?.job ?? { id: "", output_name: "" };
        return (
          <li key={id}>
            <a class="datasets-link" href={`/runs/${id}`}>
              {name}
            </a>
            <span class="datasets-bars" aria-hidden="true">
              {steps.map(({ step, mean }) => (
                <i
                  key={step}
                  title={`step ${step}: ${number(mean)}`}
                  style={{ height: `${((mean - low) / (high - low || 1)) * 100}%` }}
                />
              ))}
            </span>
            <span class="n">
              {first && last && first !== last
                ? `${number(first.mean)} at step ${first.step}, ${number(last.mean)} at step ${last.step}`
                : `${number(first?.mean)} at step ${first?.step ?? 0}`}
            </span>
          </li>
        );
      })}
    </ul>
  );
}
