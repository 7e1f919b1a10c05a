/** One row, whole, and the samples that runs made from it. */
import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { Dataset, RowList, StreamRow } from "../../../resources/data/datasets/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import { number, plural } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Copy } from "../../kit/copy.tsx";
import { Loaded } from "../../kit/page.tsx";
import { Time } from "../../kit/time.tsx";
import { EditRow } from "./edit_row.tsx";
import { Rewards } from "./rewards.tsx";
import { placeOf } from "./row_store.ts";
import { Turns } from "./row_view.tsx";
import { type SampleOfRun, samplesOf, usesOf } from "./samples.ts";

type Props = { dataset: Dataset; snapshot: string | undefined; place: number };

export function ChosenRow({ dataset, snapshot, place }: Props) {
  const pinned = snapshot === undefined ? "live=1" : `snapshot=${encodeURIComponent(snapshot)}`;
  const page = useResource<RowList>(`/v1/datasets/${dataset.id}/rows?${pinned}&from_row=${place}&limit=1`);
  return (
    <Loaded of={page}>
      {({ data: [row] }) =>
        row && placeOf(row) === place ? (
          <Whole key={place} dataset={dataset} row={row} isCurrent={snapshot === undefined} />
        ) : (
          <p class="muted">This row was removed, or the entry changes an earlier row.</p>
        )
      }
    </Loaded>
  );
}

/** `isCurrent`: a row of a snapshot never changes. */
function Whole({ dataset, row, isCurrent }: { dataset: Dataset; row: StreamRow; isCurrent: boolean }) {
  const [editing, setEditing] = useState(false);
  return (
    <div class="stack">
      <p class="muted">
        Added <Time at={row.created_at} />
        {row.op === "supersede" && `, content of entry ${row.row_id}`}
      </p>
      <Turns row={row.data ?? {}} />
      <div class="row">
        <Copy text={JSON.stringify(row.data)} label="Copy the row as JSON" shown="Copy JSON" />
        {isCurrent && may("training", false) && <Button onClick={() => setEditing(true)}>Edit</Button>}
      </div>
      {editing && <EditRow dataset={dataset} row={row} onClose={() => setEditing(false)} />}
      <Samples dataset={dataset} prompt={row.data?.["prompt"] ?? row.data?.["messages"]} />
    </div>
  );
}

function Samples({ dataset, prompt }: { dataset: Dataset; prompt: unknown }) {
  const jobs = useResource<{ data: TrainingJob[] }>("/v1/training_jobs?limit=100", { events: ["job."] });
  const [state, setState] = useState<{
    samples: readonly SampleOfRun[];
    read: number;
    done: boolean;
    error?: string;
  }>();
  const [stop] = useState(() => new AbortController());
  useEffect(() => () => stop.abort(), []);
  const runs = usesOf(jobs.data?.data ?? [], dataset.id);
  const find = async () => {
    let [samples, read]: [readonly SampleOfRun[], number] = [[], 0];
    const report = (...news: [readonly SampleOfRun[], number]) => {
      [samples, read] = news;
      setState({ samples, read, done: false });
    };
    const error = await samplesOf(runs, prompt, { signal: stop.signal, report }).then(() => undefined, errorText);
    if (!stop.signal.aborted) setState({ samples, read, done: true, ...(error === undefined ? {} : { error }) });
  };
  if (runs.length === 0) return <p class="muted">No run has read this dataset yet.</p>;
  return (
    <div class="stack">
      <h3>Rewards of this row over runs</h3>
      {!state && (
        <div class="row">
          <Button onClick={find}>Find rewards</Button>
          <small class="muted">{plural(runs.length, "run")} read this dataset</small>
        </div>
      )}
      {state && (
        <p class="muted" role="status">
          {state.error ??
            `${plural(state.samples.length, "sample")} in ${plural(state.read, "step")}${state.done ? "" : " so far"}`}
        </p>
      )}
      {state && state.samples.length > 0 && <Rewards samples={state.samples} />}
      {state?.samples.slice(0, 40).map(({ job, sample }) => (
        <div key={job.id + sample.id} class="datasets-turn">
          <small>
            <a class="datasets-link" href={`/runs/${job.id}?step=${sample.step}`}>
              {job.output_name}
            </a>
            {` · step ${sample.step} · reward ${number(sample.reward)}`}
          </small>
          <pre class="text">{sample.completion}</pre>
        </div>
      ))}
    </div>
  );
}
