/** Several runs over each other, by step, time or tokens, and the settings in which they differ. */

import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../../../lib/error_text.ts";
import { isJobOver } from "../../../../lib/training/job_status.ts";
import { ApiError, api } from "../../../data/api.ts";
import { type Page as ListPage, useResource } from "../../../data/resource.ts";
import { IconButton } from "../../../kit/button.tsx";
import { SelectField } from "../../../kit/field.tsx";
import { Empty, ErrorBox, Page as Frame, Skeleton } from "../../../kit/page.tsx";
import { queryOf, setQuery } from "../../../shell/router.ts";
import type { Axis } from "../series.ts";
import { type JobMetrics, jobPath, type TrainingJob } from "../types.ts";
import { CURVES, Overlay, type Run } from "./overlay.tsx";
import { Settings, Summary } from "./settings.tsx";

const MOST = 6;
const EVERY_MS = 3_000;
const AXES: readonly (readonly [Axis, string])[] = [
  ["step", "Step"],
  ["time", "Time"],
  ["tokens", "Tokens"],
];

export function Page() {
  const ids = [...new Set((queryOf("ids") ?? "").split(",").filter(Boolean))].slice(0, MOST);
  const axis = AXES.find(([value]) => value === queryOf("x"))?.[0] ?? "step";
  const { runs, error, refresh } = useRuns(ids);
  const isLoading = !runs && ids.length > 0;
  const change = (next: readonly string[]) => setQuery({ ids: next.join() });
  return (
    <Frame
      title="Compare runs"
      purpose="The same curves over each other, and what differs in the settings."
      above={[["Runs", "/runs"]]}
    >
      <div class="grid">
        {isLoading ? (
          <Skeleton height={600} />
        ) : (
          <div class="runs-picked">
            {ids.map((id, i) => (
              <span key={id}>
                <i style={{ background: `var(--c${i + 1})` }} />
                <a href={`/runs/${id}`}>{runs?.find(({ job }) => job.id === id)?.job.output_name ?? id}</a>
                <IconButton
                  icon="close"
                  label="Remove from the comparison"
                  onClick={() => change(ids.filter((each) => each !== id))}
                />
              </span>
            ))}
            {ids.length < MOST && <Add ids={ids} onAdd={(id) => change([...ids, id])} />}
            <span class="fill" />
            <AxisChoice axis={axis} />
          </div>
        )}
        {error && <ErrorBox error={error} retry={refresh} />}
        {ids.length === 0 && <Empty title="Choose runs to compare">Add two or more runs above.</Empty>}
        {runs && runs.length > 0 && <Overlay runs={runs} axis={axis} />}
        {runs && runs.length > 0 && <Summary runs={runs} />}
        {runs && runs.length > 1 && <Settings runs={runs} />}
      </div>
    </Frame>
  );
}

const KEYS = [...CURVES.map(([key]) => key), "num_tokens"].map(encodeURIComponent).join();

type State = { of: string; runs: Run[]; error?: ApiError };

/** Every run that can be read, with the error of one that cannot. */
async function readRuns(ids: readonly string[]): Promise<State> {
  const read = async (id: string, i: number): Promise<Run | ApiError> => {
    try {
      const metrics = api<JobMetrics>(`${jobPath(id)}/metrics?max_points=1000&keys=${KEYS}`);
      const [job, { data: points }] = await Promise.all([api<TrainingJob>(jobPath(id)), metrics]);
      return { job, points, token: `--c${i + 1}` };
    } catch (cause) {
      return cause instanceof ApiError ? cause : new ApiError(0, null, errorText(cause));
    }
  };
  const all = await Promise.all(ids.map(read));
  const error = all.find((each) => each instanceof ApiError);
  const runs = all.filter((each): each is Run => !(each instanceof ApiError));
  return { of: ids.join(), runs, ...(error ? { error } : {}) };
}

/** Loaded again while one of the runs runs. */
function useRuns(ids: readonly string[]) {
  const [state, setState] = useState<State>();
  const of = ids.join();
  useEffect(() => {
    let isLeft = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const round = async () => {
      const next = await readRuns(ids);
      if (isLeft) return;
      const isLost = next.error?.status === 0; // the curves stay, and come again with the connection
      setState((before) => (isLost && before?.of === of ? before : next));
      if (isLost || next.runs.some(({ job }) => !isJobOver(job.status)))
        timer = setTimeout(() => void round(), EVERY_MS);
    };
    void round();
    return () => {
      isLeft = true;
      clearTimeout(timer);
    };
  }, [of]);
  const known = state?.of === of ? state : undefined;
  return { runs: known?.runs, error: known?.error, refresh: async () => setState(await readRuns(ids)) };
}

function Add({ ids, onAdd }: { ids: readonly string[]; onAdd: (id: string) => void }) {
  const { data } = useResource<ListPage<TrainingJob>>("/v1/training_jobs?limit=100", { events: ["job."] });
  const others = (data?.data ?? []).filter(({ id }) => !ids.includes(id));
  return (
    <SelectField
      label="Add"
      value=""
      options={[
        ["", "Choose a run"],
        ...others.map(({ id, output_name: name, status }) => [id, `${name} · ${status} · ${id.slice(-6)}`] as const),
      ]}
      onChange={(id) => id !== "" && onAdd(id)}
    />
  );
}

const AxisChoice = ({ axis }: { axis: Axis }) => (
  <fieldset class="runs-choice">
    <legend class="hidden">Compare by</legend>
    {AXES.map(([value, shown]) => (
      <button
        key={value}
        type="button"
        aria-pressed={value === axis}
        onClick={() => setQuery({ x: value === "step" ? undefined : value })}
      >
        {shown}
      </button>
    ))}
  </fieldset>
);
