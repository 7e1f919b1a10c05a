/** How often the rule of the form would have fired: asked after each pause in typing. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { MonitorPreview } from "../../../resources/watching/monitors/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { duration, exactTime } from "../../data/format.ts";
import { Chart } from "../../kit/chart/chart.tsx";
import { Skeleton } from "../../kit/page.tsx";
import { type Form, isComplete, previewOf } from "./form.ts";
import { thresholdLines } from "./value_chart.tsx";
import { firedText, inUnit, METRICS } from "./words.ts";

const PAUSE_MS = 400;

export type Preview = { answer: MonitorPreview | undefined; error: ApiError | undefined; isBusy: boolean };

/** The last answer stays while the next one is made. */
export function usePreview(form: Form): Preview {
  const [state, setState] = useState<Preview>({ answer: undefined, error: undefined, isBusy: false });
  const text = isComplete(form) ? JSON.stringify(previewOf(form)) : undefined;
  useEffect(() => {
    if (text === undefined) return setState({ answer: undefined, error: undefined, isBusy: false });
    const leave = new AbortController();
    setState((before) => ({ ...before, isBusy: true }));
    const timer = setTimeout(async () => {
      try {
        const body: unknown = JSON.parse(text);
        const answer = await api<MonitorPreview>("/v1/monitors/preview", {
          method: "POST",
          body,
          signal: leave.signal,
        });
        if (!leave.signal.aborted) setState({ answer, error: undefined, isBusy: false });
      } catch (cause) {
        if (leave.signal.aborted) return;
        const error = cause instanceof ApiError ? cause : new ApiError(0, null, errorText(cause));
        setState({ answer: undefined, error, isBusy: false });
      }
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      leave.abort();
    };
  }, [text]);
  return state;
}

export function PreviewPart({ preview: { answer, error, isBusy }, form }: { preview: Preview; form: Form }) {
  const isReady = isComplete(form);
  return (
    <section class="monitors-preview" aria-label="Preview" aria-live="polite" aria-busy={isBusy}>
      <h3>Would it have fired?</h3>
      {!isReady && <p class="muted">Enter a threshold. The rule is then tried on what was measured before.</p>}
      {isReady && error && <p class="bad">{error.message}</p>}
      {isReady && !error && !answer && <Skeleton height={190} />}
      {isReady && answer && <Replay answer={answer} form={form} />}
    </section>
  );
}

function Replay({ answer, form }: { answer: MonitorPreview; form: Form }) {
  const { data, since, until } = answer;
  const { unit, name } = METRICS[form.metric];
  const x = useMemo(() => data.map(({ at }) => Date.parse(at) / 1000), [data]);
  const series = useMemo(
    () => [
      { label: "Value", values: data.map(({ value }) => value), token: "--c1" },
      ...thresholdLines(
        {
          alert: form.alert === "" ? null : Number(form.alert),
          warning: form.warning === "" ? null : Number(form.warning),
        },
        x,
      ),
    ],
    [data, form.alert, form.warning],
  );
  const isEmpty = data.every(({ value }) => value === null);
  if (data.length === 0)
    return <p class="muted">The past of this figure is not kept. Its curve begins with the first monitor of it.</p>;
  const span = duration((Date.parse(until) - Date.parse(since)) / 1000 + answer.step_seconds);
  return (
    <>
      <p class="monitors-fired">{firedText(answer)}</p>
      <p class="muted" title={`${exactTime(since)} to ${exactTime(until)}`}>
        {`In the last ${span}, one measurement every ${duration(answer.step_seconds)}.`}
        {isEmpty && " Nothing was measured in this time."}
      </p>
      {!isEmpty && (
        <Chart
          label={`${name} before`}
          x={x}
          series={series}
          kind="time"
          height={170}
          format={(value) => inUnit(value, unit)}
        />
      )}
    </>
  );
}
