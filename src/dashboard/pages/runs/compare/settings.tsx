/** Results and settings of several runs as tables, in words. */
import { duration, money, NONE, number, plural } from "../../../data/format.ts";
import { useResources } from "../../../data/resource.ts";
import { Card } from "../../../kit/card.tsx";
import { Diff } from "../../../kit/diff.tsx";
import { CheckField } from "../../../kit/field.tsx";
import { State } from "../../../kit/pill.tsx";
import { Table } from "../../../kit/table.tsx";
import { queryOf, setQuery } from "../../../shell/router.ts";
import { Headline } from "../headline.tsx";
import type { TrainingJob } from "../types.ts";
import { codeDifferences, compareSettings, type NameOf } from "./config.ts";
import { labelOf } from "./overlay.tsx";
import type { Run } from "./runs.ts";

const tookMs = ({ started_at: since, completed_at: until }: TrainingJob) =>
  since === null ? null : Date.parse(until ?? new Date().toISOString()) - Date.parse(since);

const took = (job: TrainingJob) => {
  const ms = tookMs(job);
  return ms === null ? NONE : duration(ms / 1000);
};

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
        { title: "Steps", cell: ({ job }) => number(job.progress.step, 9), numeric: true, wide: true },
        { title: "Took", cell: ({ job }) => took(job), numeric: true, wide: true },
        { title: "Cost", cell: ({ job }) => money(job.cost_usd), numeric: true, wide: true },
        { title: "Energy (Wh)", cell: ({ job }) => number(job.energy_wh), numeric: true, wide: true },
      ]}
    />
  </Card>
);

/** Names of the stored reward functions of the runs. Until they are there, and after a deletion, their ids. */
function useRewardNames(runs: readonly Run[]): NameOf {
  const ids = [...new Set(runs.flatMap(({ job }) => job.reward_functions.map(({ id }) => id)))].filter((id) =>
    id.startsWith("rf_"),
  );
  const { parts } = useResources<{ id: string; name: string }>(ids.map((id) => `/v1/reward_functions/${id}`));
  const names = new Map(parts.flatMap(({ data }) => (data ? [[data.id, data.name] as const] : [])));
  return (id) => names.get(id) ?? id;
}

export function Settings({ runs }: { runs: readonly Run[] }) {
  const showsAll = queryOf("all") === "1";
  const nameOf = useRewardNames(runs);
  const jobs = runs.map(({ job }) => job);
  const rows = compareSettings(jobs, nameOf);
  const code = codeDifferences(jobs);
  const differing = rows.filter(({ differs }) => differs);
  const shown = showsAll ? rows : differing;
  const total = differing.length + (code.length > 0 ? 1 : 0);
  return (
    <Card
      title="Settings"
      note={total === 0 ? "all equal" : plural(total, "difference")}
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
              key: job.id,
              title: labelOf(job, runs),
              cell: ({ values, differs }: (typeof rows)[number]) => (
                <span class={differs ? "" : "muted"}>{cut(values[i] || NONE)}</span>
              ),
            })),
          ]}
        />
      )}
      {code.map(({ from, to, before, after }) => (
        <section key={to.id} class="runs-code" aria-label={`Reward code of ${labelOf(to, runs)}`}>
          <h3>{`Reward code: ${labelOf(from, runs)} → ${labelOf(to, runs)}`}</h3>
          <Diff before={before} after={after} />
        </section>
      ))}
    </Card>
  );
}

const MOST_SHOWN = 200;
const cut = (text: string) => (text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text);
