/** All runs, with their state in words. The filter, the search and the chosen runs are in the address. */
import { JOB_STATUSES } from "../../../lib/training/job_status.ts";
import { count, duration, NONE, words } from "../../data/format.ts";
import { useList } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Elapsed, Time } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { Curve, progressOf, reasonOf } from "../home/recent_runs.tsx";
import { Headline } from "./headline.tsx";
import { METHODS } from "./methods.ts";
import type { TrainingJob } from "./types.ts";

export function Page() {
  const [status, method, search] = [queryOf("status"), queryOf("method"), queryOf("q") ?? ""];
  const filter = new URLSearchParams({ limit: "50", ...(status ? { status } : {}), ...(method ? { method } : {}) });
  const list = useList<TrainingJob>(`/v1/training_jobs?${filter}`, { events: ["job."], everyMs: 3_000 });
  const picked = (queryOf("ids") ?? "").split(",").filter((id) => id !== "");
  return (
    <Frame
      title="Runs"
      purpose="Every training of this workspace. Pick two or more to compare them."
      actions={
        <>
          {picked.length > 0 && <Button onClick={() => setQuery({ ids: undefined })}>Clear</Button>}
          {picked.length > 1 && (
            <LinkButton href={`/runs/compare?ids=${picked.join()}`}>{`Compare ${picked.length} runs`}</LinkButton>
          )}
          {may("training", false) && (
            <LinkButton kind="primary" icon="plus" href="/runs/new">
              New run
            </LinkButton>
          )}
        </>
      }
    >
      <Card>
        <Filters search={search} status={status ?? ""} method={method ?? ""} />
        <Loaded of={{ ...list, data: list.items }} skeleton={<Skeleton rows={8} />}>
          {(rows) => <Rows rows={rows} search={search} picked={picked} isFiltered={!!status || !!method} />}
        </Loaded>
        <More list={list} />
      </Card>
    </Frame>
  );
}

const Filters = ({ search, status, method }: { search: string; status: string; method: string }) => (
  <search class="filters runs-filters">
    <TextField
      label="Search"
      type="search"
      value={search}
      placeholder="Name, model, dataset or id"
      onInput={(q) => setQuery({ q })}
    />
    <SelectField
      label="State"
      value={status}
      options={[["", "All states"], ...JOB_STATUSES.map((each) => [each, words(each)] as const)]}
      onChange={(next) => setQuery({ status: next })}
    />
    <SelectField
      label="Method"
      value={method}
      options={[["", "All methods"], ...[...METHODS, "custom"].map((each) => [each, methodName(each)] as const)]}
      onChange={(next) => setQuery({ method: next })}
    />
  </search>
);

export const methodName = (method: string) => (method === "custom" ? "Custom command" : method.toUpperCase());

/** Runs that have every word of the search in their name, model, dataset, error or id. */
export function found(rows: readonly TrainingJob[], search: string): TrainingJob[] {
  const wanted = search.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter(({ id, output_name, base_model, dataset, error, metadata }) => {
    const text = [id, output_name, base_model, dataset?.id, error?.message, ...Object.values(metadata)]
      .join("\n")
      .toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}

type RowsProps = { rows: readonly TrainingJob[]; search: string; picked: readonly string[]; isFiltered: boolean };

function Rows({ rows, search, picked, isFiltered }: RowsProps) {
  const shown = found(rows, search);
  if (rows.length === 0 && !isFiltered)
    return (
      <Empty title="No run yet" command="verk demo" action={<LinkButton href="/welcome">Get started</LinkButton>}>
        Train the built-in model on sums: it takes about a minute and needs no GPU.
      </Empty>
    );
  if (shown.length === 0)
    return (
      <Empty
        title="No run fits"
        action={
          <Button onClick={() => setQuery({ q: undefined, status: undefined, method: undefined })}>
            Show all runs
          </Button>
        }
      >
        {`None of the ${count(rows.length)} runs loaded here fits the search and the filters.`}
      </Empty>
    );
  return (
    <div class="runs-list">
      <Table
        label="Runs"
        rows={shown}
        keyOf={({ id }) => id}
        href={({ id }) => `/runs/${id}`}
        columns={[
          { title: "Name", cell: (job) => job.output_name },
          {
            title: "State",
            cell: (job) => <State status={job.status} detail={progressOf(job)} reason={reasonOf(job)} />,
          },
          { title: "Curve", cell: (job) => <Curve job={job} />, wide: true },
          { title: "Result", cell: ({ headline_metric: metric }) => <Headline metric={metric} />, numeric: true },
          { title: "Method", cell: ({ method }) => methodName(method), wide: true },
          { title: "Model", cell: ({ base_model: model }) => model, wide: true },
          { title: "Took", cell: (job) => <Took job={job} />, numeric: true, wide: true },
          { title: "Created", cell: ({ created_at: at }) => <Time at={at} />, wide: true },
          { title: "Pick", cell: (job) => <Pick job={job} picked={picked} /> },
        ]}
      />
    </div>
  );
}

const Took = ({ job: { status, started_at: since, completed_at: until, progress } }: { job: TrainingJob }) => {
  if (status === "running" && progress.eta_seconds !== null) return <span>{duration(progress.eta_seconds)} left</span>;
  return since ? <Elapsed since={since} until={until} /> : <span class="muted">{NONE}</span>;
};

function Pick({ job: { id, output_name: name }, picked }: { job: TrainingJob; picked: readonly string[] }) {
  const change = (isPicked: boolean) => {
    const next = isPicked ? [...picked, id] : picked.filter((each) => each !== id);
    setQuery({ ids: next.join() });
  };
  return (
    <input
      type="checkbox"
      aria-label={`Compare ${name}`}
      checked={picked.includes(id)}
      onChange={(event) => change(event.currentTarget.checked)}
    />
  );
}
