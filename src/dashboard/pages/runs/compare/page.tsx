/** Several runs over each other, by step, time, tokens or samples, and the settings in which they differ. */
import { useState } from "preact/hooks";
import { keep, readKept, textsOr } from "../../../data/kept.ts";
import { type Page as ListPage, useResource } from "../../../data/resource.ts";
import { Arrange } from "../../../kit/arrange.tsx";
import { Button, IconButton, LinkButton } from "../../../kit/button.tsx";
import { Card } from "../../../kit/card.tsx";
import { SelectField } from "../../../kit/field.tsx";
import { Empty, ErrorBox, Page as Frame, Skeleton } from "../../../kit/page.tsx";
import { queryOf, setQuery } from "../../../shell/router.ts";
import { StyleBar, styleOf } from "../curve_style.tsx";
import type { Axis } from "../series.ts";
import type { TrainingJob } from "../types.ts";
import { Overlay } from "./overlay.tsx";
import { CURVES, type Run, titleOf, useRuns } from "./runs.ts";
import { Settings, Summary } from "./settings.tsx";

const MOST = 6;
const AXES: readonly (readonly [Axis, string])[] = [
  ["step", "Step"],
  ["time", "Time"],
  ["tokens", "Tokens"],
  ["samples", "Samples"],
];
const CHOSEN = "runs.compare";

export function Page() {
  const [isChoosing, setChoosing] = useState(false);
  const ids = [...new Set((queryOf("ids") ?? "").split(",").filter(Boolean))].slice(0, MOST);
  const axis = AXES.find(([value]) => value === queryOf("x"))?.[0] ?? "step";
  const curves = readKept(CHOSEN, textsOr(CURVES));
  const curveStyle = styleOf();
  const { runs, error, refresh } = useRuns(ids, curves);
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
        {ids.length === 0 && (
          <Card>
            <Empty title="Choose runs to compare" action={<LinkButton href="/runs">All runs</LinkButton>}>
              Add two or more runs above, or pick them in the list.
            </Empty>
          </Card>
        )}
        {runs && runs.length > 0 && (
          <>
            <StyleBar curveStyle={curveStyle}>
              <Button onClick={() => setChoosing(true)}>Choose charts</Button>
            </StyleBar>
            <Overlay runs={runs} axis={axis} curveStyle={curveStyle} curves={curves} />
            <Summary runs={runs} />
          </>
        )}
        {runs && runs.length > 1 && <Settings runs={runs} />}
      </div>
      {isChoosing && <ChartChoice runs={runs ?? []} curves={curves} onClose={() => setChoosing(false)} />}
    </Frame>
  );
}

type ChartChoiceProps = { runs: readonly Run[]; curves: readonly string[]; onClose: () => void };

function ChartChoice({ runs, curves, onClose }: ChartChoiceProps) {
  const keys = [...new Set([...CURVES, ...runs.flatMap(({ job }) => Object.keys(job.latest_metrics))])];
  return (
    <Arrange
      title="Charts of the comparison"
      choices={keys.map((key) => ({ key, label: titleOf(key) }))}
      shown={curves}
      initial={CURVES}
      onChange={(next) => keep(CHOSEN, next.join() === CURVES.join() ? null : next)}
      onClose={onClose}
    />
  );
}

function Add({ ids, onAdd }: { ids: readonly string[]; onAdd: (id: string) => void }) {
  const path = "/v1/training_jobs?limit=1000&fields=output_name,status,created_at";
  const { data } = useResource<ListPage<Pick<TrainingJob, "id" | "output_name" | "status">>>(path, {
    events: ["job."],
  });
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
