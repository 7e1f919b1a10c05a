/** Results and settings of several runs as tables. */
import { duration, money, NONE, number, plural } from "../../../data/format.ts";
import { Card } from "../../../kit/card.tsx";
import { CheckField } from "../../../kit/field.tsx";
import { State } from "../../../kit/pill.tsx";
import { Table } from "../../../kit/table.tsx";
import { queryOf, setQuery } from "../../../shell/router.ts";
import { Headline } from "../headline.tsx";
import type { TrainingJob } from "../types.ts";
import { compareSettings } from "./config.ts";
import { labelOf } from "./overlay.tsx";
import type { Run } from "./runs.ts";

const took = ({ started_at: since, completed_at: until }: TrainingJob) =>
  since === null ? NONE : duration((Date.parse(until ?? new Date().toISOString()) - Date.parse(since)) / 1000);

export const Summary = ({ runs }: { runs: readonly Run[] }) => (
  <Card title="Results">
    <Table
      label="Results"
      rows={runs}
      keyOf={({ job }) => job.id}
      href={({ job }) => `/runs/${job.id}`}
      columns={[
        { title: "Run", cell: ({ job }) => labelOf(job, runs) },
        { title: "State", cell: ({ job }) => <State status={job.status} /> },
        { title: "Result", cell: ({ job }) => <Headline metric={job.headline_metric} />, numeric: true },
        { title: "Steps", cell: ({ job }) => number(job.progress.step), numeric: true, wide: true },
        { title: "Took", cell: ({ job }) => took(job), numeric: true, wide: true },
        { title: "Cost", cell: ({ job }) => money(job.cost_usd), numeric: true, wide: true },
        { title: "Energy (Wh)", cell: ({ job }) => number(job.energy_wh), numeric: true, wide: true },
      ]}
    />
  </Card>
);

export function Settings({ runs }: { runs: readonly Run[] }) {
  const showsAll = queryOf("all") === "1";
  const rows = compareSettings(runs.map(({ job }) => job));
  const differing = rows.filter(({ differs }) => differs);
  const shown = showsAll ? rows : differing;
  return (
    <Card
      title="Settings"
      note={differing.length === 0 ? "all equal" : plural(differing.length, "difference")}
      side={
        <CheckField
          label="Show equal ones too"
          checked={showsAll}
          onChange={(on) => setQuery({ all: on ? 1 : undefined })}
        />
      }
      class="runs-differs"
    >
      {shown.length === 0 ? (
        <p class="muted">These runs have the same settings.</p>
      ) : (
        <Table
          label="Settings of the runs"
          rows={shown}
          keyOf={({ name }) => name}
          columns={[
            { title: "Setting", cell: ({ name, differs }) => <span class={differs ? "" : "muted"}>{name}</span> },
            ...runs.map(({ job }, i) => ({
              title: labelOf(job, runs),
              cell: ({ values, differs }: (typeof rows)[number]) => (
                <code class={differs ? "" : "muted"}>{cut(values[i] ?? "")}</code>
              ),
            })),
          ]}
        />
      )}
    </Card>
  );
}

const MOST_SHOWN = 200;
const cut = (text: string) => (text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text);
