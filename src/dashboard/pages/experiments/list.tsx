import type { Experiment } from "../../../resources/quality/experiments/schema.ts";
import { plural } from "../../data/format.ts";
import { useList } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Page as Frame, Loaded } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { detailOf } from "./progress.tsx";

export function Page() {
  const list = useList<Experiment>("/v1/experiments?limit=50", { events: ["experiment."], everyMs: 5_000 });
  return (
    <Frame
      title="Experiments"
      purpose="The same rows for several models, scored by your evaluators, with the statistics that say which is better."
      actions={
        may("training", false) && (
          <LinkButton kind="primary" icon="plus" href="/experiments/new">
            New experiment
          </LinkButton>
        )
      }
    >
      <Card>
        <Loaded of={{ ...list, data: list.items }}>
          {(rows) =>
            rows.length === 0 ? (
              <Empty
                title="No experiment yet"
                action={may("training", false) && <LinkButton href="/experiments/new">New experiment</LinkButton>}
              >
                Compare two models on the rows of a dataset before you choose one.
              </Empty>
            ) : (
              <Rows rows={rows} />
            )
          }
        </Loaded>
        <More list={list} />
      </Card>
    </Frame>
  );
}

const Rows = ({ rows }: { rows: readonly Experiment[] }) => (
  <Table
    label="Experiments"
    rows={rows}
    keyOf={({ id }) => id}
    href={({ id }) => `/experiments/${id}`}
    columns={[
      { title: "Name", cell: ({ name }) => name },
      {
        title: "State",
        cell: (experiment) => (
          <State status={experiment.status} detail={detailOf(experiment)} reason={experiment.error} />
        ),
      },
      { title: "Compares", cell: ({ targets }) => targets.map(({ name }) => name).join(", "), wide: true },
      { title: "Scored by", cell: ({ evaluators }) => evaluators.map(({ name }) => name).join(", "), wide: true },
      { title: "Rows", cell: ({ row_count }) => plural(row_count, "row"), numeric: true, wide: true },
      { title: "Created", cell: ({ created_at }) => <Time at={created_at} />, wide: true },
    ]}
  />
);
