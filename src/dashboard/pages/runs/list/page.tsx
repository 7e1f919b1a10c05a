/** All runs as a table of chosen columns. Filters, order, columns and picked runs are in the address. */
import { useMemo, useState } from "preact/hooks";
import { JOB_STATUSES } from "../../../../lib/training/job_status.ts";
import { count, words } from "../../../data/format.ts";
import { keep, readKept, textsOr } from "../../../data/kept.ts";
import { type Page as ListPage, useResource } from "../../../data/resource.ts";
import { may } from "../../../data/session.ts";
import { useWholeList } from "../../../data/whole_list.ts";
import { Arrange } from "../../../kit/arrange.tsx";
import { Button, LinkButton } from "../../../kit/button.tsx";
import { Card } from "../../../kit/card.tsx";
import { SelectField, TextField } from "../../../kit/field.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../../kit/page.tsx";
import { type Sort, sorted, sortOf, sortText } from "../../../kit/rows.ts";
import { Table } from "../../../kit/table.tsx";
import { queryOf, setQuery } from "../../../shell/router.ts";
import { METHODS, methodName } from "../methods.ts";
import type { TrainingJob } from "../types.ts";
import { choicesOf, columnsFor, INITIAL, type ListedRun, SECTIONS } from "./columns.tsx";
import { EditRuns } from "./edit.tsx";
import { fieldsFor } from "./fields.ts";
import { fieldsOfSearch, isFound, type Search, searchOf } from "./search.ts";
import { Views } from "./views.tsx";

const COLUMNS = "runs.columns";
const NEWEST: Sort = { key: "created", down: true };

/** Columns of the address, else those that were chosen last, else the first ones. */
function chosenColumns(): readonly string[] {
  const listed = queryOf("cols");
  return listed !== undefined ? listed.split(",") : readKept(COLUMNS, textsOr(INITIAL));
}

export function Page() {
  const [open, setOpen] = useState<"columns" | "edit" | undefined>(undefined);
  const [status, method, text] = [queryOf("status"), queryOf("method"), queryOf("q") ?? ""];
  const keys = chosenColumns();
  const search = useMemo(() => searchOf(text), [text]);
  const fields = [...fieldsFor(keys), ...fieldsOfSearch(search)].join();
  const filter = new URLSearchParams({ fields, ...(status ? { status } : {}), ...(method ? { method } : {}) });
  const list = useWholeList<ListedRun>(`/v1/training_jobs?${filter}`, { events: ["job."], everyMs: 3_000 });
  const picked = (queryOf("ids") ?? "").split(",").filter((id) => id !== "");
  const pickedRuns = (list.data ?? []).filter(({ id }) => picked.includes(id));
  const mayWrite = may("training", false);
  const close = () => setOpen(undefined);
  return (
    <Frame
      title="Runs"
      purpose="Every training of this workspace. Pick two or more to compare them."
      actions={
        <>
          {picked.length > 0 && <Button onClick={() => setQuery({ ids: undefined })}>Clear</Button>}
          {pickedRuns.length > 0 && mayWrite && <Button onClick={() => setOpen("edit")}>Tag</Button>}
          {picked.length > 1 && (
            <LinkButton href={`/runs/compare?ids=${picked.join()}`}>{`Compare ${picked.length} runs`}</LinkButton>
          )}
          {mayWrite && (
            <LinkButton kind="primary" icon="plus" href="/runs/new">
              New run
            </LinkButton>
          )}
        </>
      }
    >
      <Card>
        <Views />
        <Filters text={text} status={status ?? ""} method={method ?? ""} onColumns={() => setOpen("columns")} />
        <Loaded of={list} skeleton={<Skeleton rows={8} />}>
          {(rows) => <Rows rows={rows} search={search} keys={keys} picked={picked} isFiltered={!!status || !!method} />}
        </Loaded>
        {list.data && !list.isDone && <p class="muted runs-count">Older runs are being read…</p>}
      </Card>
      {open === "columns" && <Columns keys={keys} onClose={close} />}
      {open === "edit" && <EditRuns runs={pickedRuns} onDone={list.refresh} onClose={close} />}
    </Frame>
  );
}

function Columns({ keys, onClose }: { keys: readonly string[]; onClose: () => void }) {
  const some = useResource<ListPage<TrainingJob>>("/v1/training_jobs?limit=30").data?.data ?? [];
  const choices = useMemo(() => choicesOf(some), [some]);
  return (
    <Arrange
      title="Columns"
      choices={choices}
      shown={keys}
      initial={INITIAL}
      onChange={(next) => {
        keep(COLUMNS, next);
        setQuery({ cols: queryOf("cols") === undefined && next.join() === INITIAL.join() ? undefined : next.join() });
      }}
      onClose={onClose}
    />
  );
}

type FiltersProps = { text: string; status: string; method: string; onColumns: () => void };

const Filters = ({ text, status, method, onColumns }: FiltersProps) => (
  <search class="filters runs-filters">
    <TextField
      label="Search"
      type="search"
      value={text}
      placeholder="Name, tag:first, reward>0.8"
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
    <SelectField
      label="Together by"
      value={queryOf("by") ?? ""}
      options={[["", "One list"], ...Object.keys(SECTIONS).map((each) => [each, `By ${each}`] as const)]}
      onChange={(by) => setQuery({ by })}
    />
    <Button onClick={onColumns}>Columns</Button>
  </search>
);

type RowsProps = {
  rows: readonly ListedRun[];
  search: Search;
  keys: readonly string[];
  picked: readonly string[];
  isFiltered: boolean;
};

function Rows({ rows, search, keys, picked, isFiltered }: RowsProps) {
  const sort = sortOf(queryOf("sort")) ?? NEWEST;
  const section = SECTIONS[queryOf("by") ?? ""];
  const columns = useMemo(() => columnsFor(keys), [keys.join()]);
  const shown = useMemo(() => {
    const found = rows.filter((run) => isFound(run, search));
    const by = columns.find(({ key }) => key === sort.key)?.sortBy;
    const inOrder = by ? sorted(found, by, sort.down) : found;
    if (!section) return inOrder;
    const nameOf = (run: ListedRun) => (section(run).startsWith("No ") ? null : section(run)); // those without are last
    return sorted(inOrder, nameOf, false);
  }, [rows, search, columns, sort.key, sort.down, section]);
  if (rows.length === 0 && !isFiltered)
    return (
      <Empty title="No run yet" action={<LinkButton href="/welcome">Get started</LinkButton>}>
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
        {`None of the ${count(rows.length)} runs fits the search and the filters.`}
      </Empty>
    );
  return (
    <div class="runs-list">
      <Table
        label="Runs"
        rows={shown}
        keyOf={({ id }) => id}
        href={({ id }) => `/runs/${id}`}
        sort={sort}
        onSort={(next) => setQuery({ sort: sortText(next) === sortText(NEWEST) ? undefined : sortText(next) })}
        sectionOf={section}
        columns={[...columns, { title: "Pick", cell: (run) => <Pick run={run} picked={picked} /> }]}
      />
      <p class="muted runs-count" role="status">
        {shown.length === rows.length
          ? `${count(rows.length)} runs`
          : `${count(shown.length)} of ${count(rows.length)} runs`}
      </p>
    </div>
  );
}

function Pick({ run: { id, output_name: name }, picked }: { run: ListedRun; picked: readonly string[] }) {
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
