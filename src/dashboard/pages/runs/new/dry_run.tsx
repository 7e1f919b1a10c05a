/** The dry run: what the server would answer now, asked again after each pause in typing. */
import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../../../lib/error_text.ts";
import { ApiError, api } from "../../../data/api.ts";
import { bytes, duration, money, number, percent } from "../../../data/format.ts";
import { Card, Stat } from "../../../kit/card.tsx";
import { Pill } from "../../../kit/pill.tsx";
import { promptText, SampleView } from "../sample.tsx";
import { type JobValidation, jobPath } from "../types.ts";

export type Fault = { message: string; param: string | null };
export type DryRun = { isBusy: boolean; answer: JobValidation | undefined; faults: readonly Fault[] };

const PAUSE_MS = 600;

/** `body` undefined: the form is not complete enough to ask. The last answer stays while the next one is made. */
export function useDryRun(body: Record<string, unknown> | undefined): DryRun {
  const [state, setState] = useState<DryRun>({ isBusy: false, answer: undefined, faults: [] });
  const text = body === undefined ? undefined : JSON.stringify(body);
  useEffect(() => {
    if (text === undefined) return setState((before) => ({ ...before, isBusy: false }));
    const leave = new AbortController();
    setState((before) => ({ ...before, isBusy: true }));
    const timer = setTimeout(async () => {
      try {
        const call = { method: "POST", body: JSON.parse(text) as unknown, signal: leave.signal } as const;
        const answer = await api<JobValidation>(jobPath("validate"), call);
        if (!leave.signal.aborted) setState({ isBusy: false, answer, faults: answer.errors });
      } catch (error) {
        if (leave.signal.aborted) return;
        const param = error instanceof ApiError ? error.param : null;
        setState({ isBusy: false, answer: undefined, faults: [{ message: errorText(error), param }] });
      }
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      leave.abort();
    };
  }, [text]);
  return state;
}

/** The message of the field at this pointer. */
export const faultAt = (faults: readonly Fault[], pointer: string): string | undefined =>
  faults.find(({ param }) => param === pointer)?.message;

/** `faults`: all of them. `others`: those that no field shows. */
type DryRunProps = { run: DryRun; faults: readonly Fault[]; others: readonly Fault[]; isComplete: boolean };

export function DryRunCard({ run: { isBusy, answer }, faults, others, isComplete }: DryRunProps) {
  const isReady = faults.length === 0 && answer?.valid;
  const verdict = isBusy ? "trying it out" : faults.length > 0 ? "needs a change" : isReady ? "ready to start" : "";
  return (
    <Card
      title="Dry run"
      class="runs-dry"
      side={
        <span aria-live="polite">
          {verdict !== "" && <Pill tone={isBusy ? "busy" : isReady ? "good" : "warn"}>{verdict}</Pill>}
        </span>
      }
    >
      <div class="stack">
        {!isComplete && (
          <p class="muted">
            Choose a model and a dataset. Then the real model and the real reward are tried on a few prompts.
          </p>
        )}
        <Estimate answer={answer} />
        {others.length > 0 && (
          <ul class="runs-faults bad">
            {others.map(({ message, param }) => (
              <li key={message}>{param ? `${param.slice(1)}: ${message}` : message}</li>
            ))}
          </ul>
        )}
        {answer?.warnings.map(({ message }) => (
          <p key={message} class="warn">
            {message}
          </p>
        ))}
        {answer?.rows_preview && <RowsPreview preview={answer.rows_preview} />}
        {answer?.reward_preview && <RewardPreview preview={answer.reward_preview} />}
      </div>
    </Card>
  );
}

function Estimate({ answer }: { answer: JobValidation | undefined }) {
  const { vram_bytes_peak: memory, duration_seconds: time, cost_usd: cost } = answer?.estimate ?? {};
  return (
    <div class="runs-estimate">
      <Stat label="Memory" value={bytes(memory)} />
      <Stat label="Time" value={duration(time)} />
      <Stat label="Price" value={money(cost)} />
    </div>
  );
}

/** The learned text is marked. */
function RowsPreview({ preview }: { preview: NonNullable<JobValidation["rows_preview"]> }) {
  const { rows, tokens, cut_rows: cut, dropped_rows: dropped, max_length: most, first } = preview;
  return (
    <div>
      <h3>Rows as the model reads them</h3>
      <p class={dropped > 0 ? "warn" : "muted"}>
        {`${rows} rows, ${tokens} tokens; ${cut} cut at max_length ${most}, ${dropped} not used`}
      </p>
      {first?.error && <p class="bad">{first.error}</p>}
      {first?.sequences.map(({ name, parts }) => (
        <div key={name}>
          <p class="muted">{`First row, ${name}; the marked text is learned`}</p>
          <pre class="runs-row-text">
            {parts.map(({ text, trained }, i) => (trained ? <mark key={`${i}${text}`}>{text}</mark> : text))}
          </pre>
        </div>
      ))}
    </div>
  );
}

/** Shown answers of the best, and as many of the worst. */
const SHOWN = 3;

function RewardPreview({ preview }: { preview: NonNullable<JobValidation["reward_preview"]> }) {
  const { mean, std, frac_zero_std: flat, latency_ms_p50: latency, samples } = preview;
  const sorted = samples.toSorted((a, b) => (b.reward ?? -1) - (a.reward ?? -1));
  const shown = sorted.length <= 2 * SHOWN ? sorted : [...sorted.slice(0, SHOWN), ...sorted.slice(-SHOWN)];
  return (
    <div>
      <h3>Reward before training</h3>
      <p class="muted">
        {`${number(mean)} ± ${number(std)} on ${samples.length} answers`}
        {latency === null ? "" : `, ${latency < 1 ? "under 1 ms" : duration(latency / 1000)} each`}
      </p>
      {flat !== null && flat > 0 && (
        <p class={flat === 1 ? "warn" : "muted"}>
          {`${percent(flat)} of the prompts have answers with equal rewards; the model learns nothing from these.`}
        </p>
      )}
      <ol class="runs-samples">
        {shown.map((sample, i) => (
          <SampleView
            key={`${i}${sample.completion}`}
            sample={sample}
            prompt={promptText(sample.prompt)}
            figure={number(sample.reward)}
            figureLabel="reward"
          >
            <pre class="text">{sample.completion}</pre>
          </SampleView>
        ))}
      </ol>
    </div>
  );
}
