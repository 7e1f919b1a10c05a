import type { ExperimentItem } from "../../../resources/quality/experiments/results_schema.ts";
import type { Experiment } from "../../../resources/quality/experiments/schema.ts";
import { count, duration, number } from "../../data/format.ts";
import { useList } from "../../data/resource.ts";
import { Card } from "../../kit/card.tsx";
import { Messages } from "../../kit/content.tsx";
import { Diff } from "../../kit/diff.tsx";
import { SelectField } from "../../kit/field.tsx";
import { Empty, Loaded } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { More } from "../../kit/table.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { isRunning } from "./progress.tsx";

/** Answers of one target beside those of the baseline. The first view is of the rows that got worse. */
export function Items({ experiment }: { experiment: Experiment }) {
  const others = experiment.targets.filter(({ name }) => name !== experiment.baseline);
  const target = queryOf("target") ?? others[0]?.name ?? experiment.baseline;
  const isAll = queryOf("show") === "all" || others.length === 0;
  const query = new URLSearchParams({ target, limit: "20", ...(isAll ? {} : { regression: "true" }) });
  const list = useList<ExperimentItem>(`/v1/experiments/${experiment.id}/items?${query}`, {
    events: ["experiment."],
    everyMs: isRunning(experiment) ? 3_000 : undefined,
  });
  return (
    <Card title="Answers">
      <div class="filters experiments-choose">
        <SelectField
          label="Target"
          value={target}
          options={experiment.targets.map(({ name }) => [name, name] as const)}
          onChange={(name) => setQuery({ target: name }, { push: true })}
        />
        <SelectField
          label="Rows"
          value={isAll ? "all" : "worse"}
          options={[
            ["worse", `Worse than ${experiment.baseline}`],
            ["all", "All rows"],
          ]}
          onChange={(value) => setQuery({ show: value === "all" ? "all" : undefined }, { push: true })}
        />
      </div>
      <Loaded of={{ ...list, data: list.items }}>
        {(items) =>
          items.length === 0 ? (
            <Empty title={isAll ? "No answer yet" : `No row is worse than ${experiment.baseline}`}>
              {!isAll && "Choose all rows to read the answers."}
            </Empty>
          ) : (
            <ol class="experiments-items">
              {items.map((item) => (
                <Item key={item.id} item={item} baseline={experiment.baseline} />
              ))}
            </ol>
          )
        }
      </Loaded>
      <More list={list} />
    </Card>
  );
}

const Item = ({ item, baseline }: { item: ExperimentItem; baseline: string }) => (
  <li>
    <header class="row">
      <h3>Row {count(item.row_id)}</h3>
      {Object.entries(item.scores).map(([name, score]) => (
        <Pill key={name} tone={score.regression ? "bad" : score.passed === false ? "warn" : "good"}>
          {`${name} ${score.baseline_score === null ? "" : `${number(score.baseline_score)} → `}${number(score.score)}`}
        </Pill>
      ))}
      {item.latency_ms !== null && <small class="muted">{duration(item.latency_ms / 1000)}</small>}
      {item.reference !== null && (
        <small class="experiments-reference">
          Right answer <b>{item.reference}</b>
        </small>
      )}
      {item.annotation_items.map(({ id, queue_id }) => (
        <a key={id} class="ref" href={`/annotate/${queue_id}`}>
          In annotation
        </a>
      ))}
    </header>
    <Messages of={item.input} by="user" />
    {item.error !== null && <p class="bad">{item.error}</p>}
    <div class="grid half experiments-pair">
      {item.baseline_output !== null && <Answer title={baseline} text={item.baseline_output} />}
      <Answer title={item.target} text={item.output} before={item.baseline_output ?? undefined} />
    </div>
    {Object.entries(item.scores).map(([name, { reason, error }]) =>
      (reason ?? error) === null ? null : (
        <p key={name} class={error === null ? "muted" : "bad"}>
          {name}: {error ?? reason}
        </p>
      ),
    )}
  </li>
);

const Answer = ({ title, text, before }: { title: string; text: string | null; before?: string | undefined }) => (
  <div>
    <small>{title}</small>
    {text === null ? <p class="muted">No answer yet</p> : <Diff before={before} after={text} />}
  </div>
);
