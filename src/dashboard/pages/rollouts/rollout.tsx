/** One rollout: its turns in each conversation, their exact tokens, their times, and the reward. */
import { useState } from "preact/hooks";
import { count, duration, money, NONE, number, plural } from "../../data/format.ts";
import { deleteResource, type Page as ListPage, reload, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card, Facts, Stat } from "../../kit/card.tsx";
import { Ref } from "../../kit/content.tsx";
import { Id } from "../../kit/copy.tsx";
import { Confirm, FormDialog } from "../../kit/dialog.tsx";
import { SelectField } from "../../kit/field.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { More } from "../../kit/table.tsx";
import { Tabs, tabOf } from "../../kit/tabs.tsx";
import { Time } from "../../kit/time.tsx";
import { navigate, queryOf, setQuery } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import { openInPlayground } from "../playground/handover.ts";
import type { PageProps } from "../spec.ts";
import { nameOf } from "./list.tsx";
import { Times } from "./times.tsx";
import { COLOURS, type Colour, Legend, Tokens } from "./tokens.tsx";
import { TurnView } from "./turn.tsx";
import { type Conversation, conversationsOf, requestOf, rewardText, spansOf, worthOf } from "./turns.ts";
import type { Rollout, Turn } from "./types.ts";
import { useRollout, type Whole } from "./use_turns.ts";

const TABS = [
  ["turns", "Turns"],
  ["tokens", "Tokens"],
  ["times", "Times"],
] as const;

export function Page({ params }: PageProps) {
  const found = useRollout(params["id"] ?? "");
  const { data } = found;
  return (
    <Frame
      title={data ? nameOf(data.rollout) : "Rollout"}
      above={[["Rollouts", "/rollouts"]]}
      beside={data && <State status={data.rollout.status} />}
      purpose={data ? <Time at={data.rollout.created_at} /> : "\u00a0"}
      actions={data && <Actions of={data} />}
    >
      <Loaded of={found} skeleton={<Skeleton height={420} />}>
        {(whole) => (
          <>
            <Figures of={whole} />
            <Tabs label="Parts of the rollout" tabs={TABS} />
            <div class="grid two">
              <div class="grid">
                {whole.turns.length === 0 ? <NoTurn rollout={whole.rollout} /> : <Chosen of={whole} />}
                <More list={found} />
              </div>
              <div class="grid">
                <Reward of={whole.rollout} />
                <About of={whole.rollout} />
              </div>
            </div>
          </>
        )}
      </Loaded>
    </Frame>
  );
}

function Figures({ of: { rollout, turns } }: { of: Whole }) {
  const { wholeMs } = spansOf(turns);
  return (
    <div class="grid stats">
      <Stat label="Reward" value={number(rollout.reward)} />
      <Stat label="Turns" value={`${count(rollout.turns)} of ${count(rollout.max_turns)}`} />
      <Stat label="Branches" value={count(rollout.branches)} />
      <Stat label="Tokens read" value={count(rollout.prompt_tokens)} />
      <Stat label="Tokens written" value={count(rollout.completion_tokens)} />
      <Stat label="Time" value={turns.length === 0 ? NONE : duration(wholeMs / 1000)} />
    </div>
  );
}

const NoTurn = ({ rollout }: { rollout: Rollout }) => (
  <Card>
    <Empty title="No turn yet" command={`export OPENAI_BASE_URL=${rollout.base_url}`}>
      Give the agent this address and the key that was shown when the rollout was opened.
    </Empty>
  </Card>
);

function Chosen({ of: { rollout, turns } }: { of: Whole }) {
  const paths = conversationsOf(turns);
  const path = paths[Number(queryOf("path") ?? 1) - 1] ?? paths[0] ?? [];
  const tab = tabOf("turns");
  if (tab === "times") return <Times turns={turns} />;
  return (
    <Card
      title={tab === "tokens" ? "Tokens" : "Turns"}
      note={paths.length > 1 ? `${plural(paths.length, "conversation")}` : undefined}
    >
      {paths.length > 1 && (
        <SelectField
          label="Conversation"
          value={String(paths.indexOf(path) + 1)}
          options={paths.map((each, i) => [String(i + 1), titleOf(each)] as const)}
          onChange={(chosen) => setQuery({ path: chosen === "1" ? undefined : chosen })}
        />
      )}
      {tab === "tokens" ? (
        <TokensOf rollout={rollout} path={path} />
      ) : (
        path.map((turn, i) => (
          <TurnView key={turn.number} turn={turn} onTry={() => tryAgain(rollout, path.slice(0, i + 1))} />
        ))
      )}
    </Card>
  );
}

const titleOf = (path: Conversation) =>
  `${path.length === 1 ? "Turn" : "Turns"} ${path.map(({ number: turn }) => turn).join(", ")}`;

function TokensOf({ rollout, path }: { rollout: Rollout; path: Conversation }) {
  const worth = worthOf(rollout);
  const colour: Colour = queryOf("colour") === "worth" ? "worth" : "likely";
  return (
    <>
      <div class="rollouts-look">
        <SelectField
          label="Colour by"
          value={colour}
          options={COLOURS.map(
            ([value, shown]) => [value, value === "worth" ? (worth?.name ?? shown) : shown] as const,
          )}
          onChange={(next) => setQuery({ colour: next === "likely" ? undefined : next })}
        />
        <Legend colour={colour} worth={worth} />
      </div>
      {path.map((turn) => (
        <TurnView key={turn.number} turn={turn}>
          <Tokens rollout={rollout.id} turn={turn} model={rollout.model} colour={colour} worth={worth} />
        </TurnView>
      ))}
    </>
  );
}

/** The request of the last turn of the path, ready to be sent again. */
function tryAgain({ model, sampling }: Rollout, path: Conversation) {
  const last = path.at(-1);
  openInPlayground({ models: [model], messages: requestOf(path), tools: last?.tools ?? [], sampling });
}

const Reward = ({ of }: { of: Rollout }) => (
  <Card title="Reward">
    <p class="rollouts-reward">{number(of.reward)}</p>
    <p class="muted">{rewardText(of)}</p>
    {Object.keys(of.metrics).length > 0 && (
      <Facts rows={Object.entries(of.metrics).map(([name, value]) => [name, number(value)] as const)} />
    )}
    {of.finished_at !== null && (
      <p class="muted">
        <Time at={of.finished_at} />
      </p>
    )}
  </Card>
);

const About = ({ of }: { of: Rollout }) => (
  <Card title="About">
    <Facts
      rows={[
        ["Model", of.model],
        ...(of.replay_of === null
          ? []
          : [["Replay of", <Ref key="r" page="/rollouts/:id" id={of.replay_of} />] as const]),
        ...Object.entries(of.sampling).map(([name, value]) => [name, JSON.stringify(value)] as const),
        ["Most tokens", of.max_tokens === null ? NONE : count(of.max_tokens)],
        ["Most cost", money(of.max_cost_usd)],
        ["Cost", money(of.cost_usd)],
        ["Expires", <Time key="e" at={of.expires_at} />],
        ["Id", <Id key="i" text={of.id} />],
        ...Object.entries(of.metadata),
      ]}
    />
  </Card>
);

function Actions({ of: { rollout, turns } }: { of: Whole }) {
  const [open, setOpen] = useState<"compare" | "delete">();
  const close = () => setOpen(undefined);
  const first: readonly Turn[] = conversationsOf(turns)[0]?.slice(0, 1) ?? [];
  return (
    <>
      {first.length > 0 && may("inference", false) && (
        <Button kind="primary" onClick={() => tryAgain(rollout, first)}>
          Try again in the playground
        </Button>
      )}
      <Button onClick={() => setOpen("compare")}>Compare</Button>
      {may("inference", false) && (
        <Button kind="danger" onClick={() => setOpen("delete")}>
          Delete
        </Button>
      )}
      {open === "compare" && <CompareWith rollout={rollout} onClose={close} />}
      {open === "delete" && <Delete id={rollout.id} onClose={close} />}
    </>
  );
}

/** Rollouts with the same task in their metadata come first, then those of the same model. */
function CompareWith({ rollout, onClose }: { rollout: Rollout; onClose: () => void }) {
  const list = useResource<ListPage<Rollout>>("/v1/rollouts?limit=100");
  const [id, setId] = useState<string>();
  const likeness = (other: Rollout) =>
    2 * Number(nameOf(other) === nameOf(rollout)) + Number(other.model === rollout.model);
  const others = (list.data?.data ?? [])
    .filter((each) => each.id !== rollout.id)
    .toSorted((a, b) => likeness(b) - likeness(a));
  const chosen = others.find((each) => each.id === id) ?? others[0];
  return (
    <FormDialog
      title="Compare with another rollout"
      verb="Compare"
      isReady={chosen !== undefined}
      onSubmit={() => navigate(`/rollouts/compare?ids=${rollout.id},${chosen?.id}`)}
      onClose={onClose}
    >
      {others.length === 0 ? (
        <p class="muted">There is no other rollout yet.</p>
      ) : (
        <SelectField
          label="The other one"
          value={chosen?.id ?? ""}
          options={others.map((each) => [each.id, optionOf(each)] as const)}
          onChange={setId}
          hint="Those with the same task come first"
        />
      )}
    </FormDialog>
  );
}

const optionOf = (of: Rollout) =>
  `${nameOf(of)} …${of.id.slice(-6)}, reward ${number(of.reward)}, ${plural(of.turns, "turn")}`;

function Delete({ id, onClose }: { id: string; onClose: () => void }) {
  const remove = () =>
    attempt(async () => {
      await deleteResource(`/v1/rollouts/${id}`);
      navigate("/rollouts");
      await reload("/v1/rollouts?");
    }, "Deleted the rollout");
  return (
    <Confirm title="Delete the rollout" verb="Delete" onConfirm={remove} onClose={onClose}>
      Its turns with their tokens are removed. Traces and datasets that were made of them stay.
    </Confirm>
  );
}
