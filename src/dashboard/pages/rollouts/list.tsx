/** All rollouts. Picked ones are compared, or become a dataset. */
import { useState } from "preact/hooks";
import { api } from "../../data/api.ts";
import { count, money, NONE, number, words } from "../../data/format.ts";
import { reload, useList } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { FormDialog } from "../../kit/dialog.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { navigate, queryOf, setQuery } from "../../shell/router.ts";
import type { Rollout } from "./types.ts";

const STATES = ["open", "ended", "finished"] as const;

export function Page() {
  const [isMaking, setIsMaking] = useState(false);
  const [status, model] = [queryOf("status") ?? "", queryOf("model") ?? ""];
  const filter = new URLSearchParams({ limit: "50", ...(status ? { status } : {}), ...(model ? { model } : {}) });
  const list = useList<Rollout>(`/v1/rollouts?${filter}`, { events: ["rollout."], everyMs: 5_000 });
  const picked = (queryOf("ids") ?? "").split(",").filter((id) => id !== "");
  return (
    <Frame
      title="Rollouts"
      purpose="Agents at work: each call of the model as a turn with its exact tokens, and the reward at the end."
      actions={
        <>
          {picked.length > 0 && <Button onClick={() => setQuery({ ids: undefined })}>Clear</Button>}
          {picked.length > 0 && may("training", false) && (
            <Button onClick={() => setIsMaking(true)}>Make a dataset</Button>
          )}
          {picked.length === 2 && <LinkButton href={`/rollouts/compare?ids=${picked.join()}`}>Compare</LinkButton>}
        </>
      }
    >
      <Card>
        <search class="filters rollouts-filters">
          <SelectField
            label="State"
            value={status}
            options={[["", "All states"], ...STATES.map((each) => [each, words(each)] as const)]}
            onChange={(next) => setQuery({ status: next })}
          />
          <TextField
            label="Model"
            type="search"
            value={model}
            placeholder="Deployment or agent"
            onInput={(next) => setQuery({ model: next })}
          />
        </search>
        <Loaded of={{ ...list, data: list.items }} skeleton={<Skeleton rows={8} />}>
          {(rows) =>
            rows.length === 0 ? (
              <Nothing isFiltered={status !== "" || model !== ""} />
            ) : (
              <Rows rows={rows} of={picked} />
            )
          }
        </Loaded>
        <More list={list} />
      </Card>
      {isMaking && <MakeDataset ids={picked} onClose={() => setIsMaking(false)} />}
    </Frame>
  );
}

const Nothing = ({ isFiltered }: { isFiltered: boolean }) =>
  isFiltered ? (
    <Empty
      title="No rollout fits"
      action={<Button onClick={() => setQuery({ status: undefined, model: undefined })}>Clear filters</Button>}
    >
      Change a filter, or clear all of them.
    </Empty>
  ) : (
    <Empty
      title="No rollout yet"
      command={`curl ${location.origin}/v1/rollouts -H "authorization: Bearer $VERK_API_KEY" -H 'content-type: application/json' -d '{}'`}
      action={<LinkButton href="/deployments">Deployments</LinkButton>}
    >
      The answer has an address and a key for an agent. Every call that it makes there becomes a turn. A model must be
      deployed.
    </Empty>
  );

/** A rollout has no name: its task in the metadata, or the end of its id. */
export const nameOf = ({ id, metadata }: Pick<Rollout, "id" | "metadata">): string =>
  metadata["task"] ?? metadata["name"] ?? `…${id.slice(-6)}`;

const Rows = ({ rows, of: picked }: { rows: readonly Rollout[]; of: readonly string[] }) => (
  <Table
    label="Rollouts"
    rows={rows}
    keyOf={({ id }) => id}
    href={({ id }) => `/rollouts/${id}`}
    columns={[
      { title: "Task", cell: nameOf },
      { title: "State", cell: ({ status }) => <State status={status} /> },
      { title: "Reward", cell: ({ reward }) => number(reward), numeric: true },
      { title: "Model", cell: ({ model }) => model, wide: true },
      { title: "Turns", cell: ({ turns }) => count(turns), numeric: true },
      {
        title: "Branches",
        cell: ({ branches }) => (branches === 0 ? NONE : count(branches)),
        numeric: true,
        wide: true,
      },
      {
        title: "Tokens",
        cell: ({ prompt_tokens: read, completion_tokens: written }) => `${count(read)} → ${count(written)}`,
        numeric: true,
      },
      { title: "Cost", cell: ({ cost_usd }) => money(cost_usd), numeric: true, wide: true },
      { title: "Opened", cell: ({ created_at: at }) => <Time at={at} />, wide: true },
      { title: "Select", cell: (row) => <Pick row={row} picked={picked} /> },
    ]}
  />
);

function Pick({ row, picked }: { row: Rollout; picked: readonly string[] }) {
  const change = (isPicked: boolean) =>
    setQuery({ ids: (isPicked ? [...picked, row.id] : picked.filter((id) => id !== row.id)).join() });
  return (
    <input
      type="checkbox"
      aria-label={`Pick ${nameOf(row)} ${row.id.slice(-6)}`}
      checked={picked.includes(row.id)}
      onChange={(event) => change(event.currentTarget.checked)}
    />
  );
}

function MakeDataset({ ids, onClose }: { ids: readonly string[]; onClose: () => void }) {
  const [name, setName] = useState("from-rollouts");
  const make = async () => {
    const body = { name: name.trim(), rollouts: ids };
    const { id } = await api<{ id: string }>("/v1/rollouts/dataset", { method: "POST", body });
    await reload("/v1/datasets");
    navigate(`/datasets/${id}`);
  };
  return (
    <FormDialog title="Make a dataset" verb="Make" isReady={name.trim() !== ""} onSubmit={make} onClose={onClose}>
      <TextField
        label="Name"
        value={name}
        onInput={setName}
        hint="One row for each conversation, with its messages, tokens, mask and reward"
      />
    </FormDialog>
  );
}
