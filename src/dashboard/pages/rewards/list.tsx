import type { Evaluator } from "../../../resources/quality/evaluators/schema.ts";
import type { RewardFunction } from "../../../resources/training/reward_functions/schema.ts";
import { NONE, words } from "../../data/format.ts";
import { useList, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Page as Frame, Loaded } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Tabs, tabOf } from "../../kit/tabs.tsx";
import { Time } from "../../kit/time.tsx";

const TABS = [
  ["own", "Rewards"],
  ["library", "Built-in rewards"],
  ["evaluators", "Evaluators"],
] as const;

export function Page() {
  const tab = tabOf("own");
  return (
    <Frame
      title="Rewards and evaluators"
      purpose="Rewards score answers while a model trains. Evaluators judge answers of any model."
      actions={
        tab === "evaluators" ? (
          <LinkButton kind="primary" icon="plus" href="/rewards/evaluators/new">
            New evaluator
          </LinkButton>
        ) : (
          <LinkButton kind="primary" icon="plus" href="/rewards/new">
            New reward
          </LinkButton>
        )
      }
    >
      <Tabs label="Kinds" tabs={TABS} />
      {tab === "own" && <Own />}
      {tab === "library" && <Library />}
      {tab === "evaluators" && <Evaluators />}
    </Frame>
  );
}

function Own() {
  const list = useList<RewardFunction>("/v1/reward_functions?kind=reward&limit=50&latest=1", {
    events: ["reward_function."],
  });
  return (
    <Card>
      <Loaded of={{ ...list, data: list.items }}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty
              title="No reward of your own yet"
              command="verk rewards push reward.py"
              action={may("training", false) && <LinkButton href="/rewards/new">New reward</LinkButton>}
            >
              Write one here and see at once how it would have scored a run, or use a built-in reward.
            </Empty>
          ) : (
            <Table
              label="Rewards"
              rows={rows}
              keyOf={({ id }) => id}
              href={({ id }) => `/rewards/${id}`}
              columns={[
                { title: "Name", cell: ({ name }) => name },
                { title: "Version", cell: ({ version }) => version, numeric: true },
                { title: "State", cell: ({ status, error }) => <State status={status} reason={error?.message} /> },
                { title: "Language", cell: ({ language }) => words(language), wide: true },
                { title: "Created", cell: ({ created_at }) => <Time at={created_at} />, wide: true },
              ]}
            />
          )
        }
      </Loaded>
      <More list={list} />
    </Card>
  );
}

function Library() {
  const list = useResource<{ data: RewardFunction[] }>("/v1/reward_functions/library");
  return (
    <Card>
      <Loaded of={list}>
        {({ data }) => (
          <Table
            label="Built-in rewards"
            rows={data}
            keyOf={({ id }) => id}
            href={({ id }) => `/rewards/${id}`}
            columns={[
              { title: "Name", cell: ({ name }) => name },
              { title: "Meaning", cell: ({ description }) => description ?? NONE },
            ]}
          />
        )}
      </Loaded>
    </Card>
  );
}

function Evaluators() {
  const list = useList<Evaluator>("/v1/evaluators?limit=50&latest=1", { events: ["evaluator."] });
  return (
    <Card>
      <Loaded of={{ ...list, data: list.items }}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty
              title="No evaluator yet"
              action={may("training", false) && <LinkButton href="/rewards/evaluators/new">New evaluator</LinkButton>}
            >
              An evaluator checks answers by a text, a JSON schema, code, a reward, or a model as judge.
            </Empty>
          ) : (
            <Table
              label="Evaluators"
              rows={rows}
              keyOf={({ id }) => id}
              href={({ id }) => `/rewards/evaluators/${id}`}
              columns={[
                { title: "Name", cell: ({ name }) => name },
                { title: "Kind", cell: ({ kind }) => words(kind) },
                { title: "Version", cell: ({ version }) => version, numeric: true },
                { title: "Meaning", cell: ({ description }) => description ?? NONE, wide: true },
                { title: "Created", cell: ({ created_at }) => <Time at={created_at} />, wide: true },
              ]}
            />
          )
        }
      </Loaded>
      <More list={list} />
    </Card>
  );
}
