/** Two rollouts side by side, turn by turn: where they part, and which was better. */
import { count, duration, money, number } from "../../data/format.ts";
import { type Message, messagesOf } from "../../data/messages.ts";
import { LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Diff } from "../../kit/diff.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { Table } from "../../kit/table.tsx";
import { queryOf } from "../../shell/router.ts";
import { nameOf } from "./list.tsx";
import { Said } from "./turn.tsx";
import { answerOf, conversationsOf, isSameTask, spansOf } from "./turns.ts";
import type { Turn } from "./types.ts";
import { useRollout, type Whole } from "./use_turns.ts";

export function Page() {
  const [first = "", second = ""] = (queryOf("ids") ?? "").split(",");
  const [a, b] = [useRollout(first), useRollout(second)];
  const both = {
    data: a.data && b.data ? ([a.data, b.data] as const) : undefined,
    error: a.error ?? b.error,
    refresh: () => Promise.all([a.refresh(), b.refresh()]),
  };
  return (
    <Frame
      title="Compare rollouts"
      above={[["Rollouts", "/rollouts"]]}
      purpose="Two agents at the same task: what they did, and what it was worth."
    >
      {first === "" || second === "" ? (
        <Card>
          <Empty title="Select two rollouts" action={<LinkButton href="/rollouts">Rollouts</LinkButton>}>
            Tick two of the list, then press Compare.
          </Empty>
        </Card>
      ) : (
        <Loaded of={both} skeleton={<Skeleton height={420} />}>
          {([left, right]) => (
            <>
              <Figures of={[left, right]} />
              <Turns of={[left, right]} />
            </>
          )}
        </Loaded>
      )}
    </Frame>
  );
}

type Pair = readonly [Whole, Whole];
type Line = { name: string; values: readonly [string, string]; by: string };

function linesOf([a, b]: Pair): Line[] {
  const line = (name: string, of: (whole: Whole) => number | null, show: (value: number | null) => string): Line => {
    const [left, right] = [of(a), of(b)];
    const by = left === null || right === null || left === right ? "" : show(right - left);
    return { name, values: [show(left), show(right)], by: by !== "" && (right ?? 0) > (left ?? 0) ? `+${by}` : by };
  };
  const metrics = new Set([...Object.keys(a.rollout.metrics), ...Object.keys(b.rollout.metrics)]);
  return [
    line("Reward", ({ rollout }) => rollout.reward, number),
    ...[...metrics].map((name) => line(name, ({ rollout }) => rollout.metrics[name] ?? null, number)),
    line("Turns", ({ rollout }) => rollout.turns, count),
    line("Branches", ({ rollout }) => rollout.branches, count),
    line("Tokens written", ({ rollout }) => rollout.completion_tokens, count),
    line("Time", ({ turns }) => spansOf(turns).wholeMs / 1000, signedDuration),
    line("Cost", ({ rollout }) => rollout.cost_usd, money),
  ];
}

const signedDuration = (seconds: number | null) =>
  seconds !== null && seconds < 0 ? `-${duration(-seconds)}` : duration(seconds);

const Figures = ({ of }: { of: Pair }) => (
  <Card
    title={isSameTask(of[0].turns, of[1].turns) ? "The same task" : "Different tasks: they begin with other messages"}
  >
    <Table
      label="Figures"
      rows={linesOf(of)}
      keyOf={({ name }) => name}
      columns={[
        { title: "Figure", cell: ({ name }) => name },
        ...of.map(({ rollout }, i) => ({
          key: rollout.id + i,
          title: `${nameOf(rollout)} …${rollout.id.slice(-6)}`,
          cell: ({ values }: Line) => values[i],
          numeric: true,
        })),
        { title: "Difference", cell: ({ by }) => by, numeric: true },
      ]}
    />
  </Card>
);

const textOf = (turn: Turn | undefined): string =>
  turn === undefined
    ? ""
    : messagesOf(answerOf(turn))
        .map(({ text }: Message) => text)
        .join("\n");

/** The longest conversation of each. */
function Turns({ of }: { of: Pair }) {
  const [left = [], right = []] = of.map(({ turns }) =>
    conversationsOf(turns).reduce((most, path) => (path.length > most.length ? path : most), []),
  );
  const many = Math.max(left.length, right.length);
  const parts = Array.from({ length: many }, (_, i) => textOf(left[i]) !== textOf(right[i])).indexOf(true);
  return (
    <Card title="Turn by turn" note={parts < 0 ? "All answers are the same" : `They part at turn ${parts + 1}`}>
      {Array.from({ length: many }, (_, i) => {
        const [one, other] = [left[i], right[i]];
        return (
          <section key={i} class="rollouts-turn" aria-label={`Turn ${i + 1}`}>
            <header>
              <h3>Turn {i + 1}</h3>
              {one && other && textOf(one) === textOf(other) && <small>The same answer</small>}
            </header>
            <div class="rollouts-pair">
              {of.map(({ rollout }, at) => {
                const turn = at === 0 ? one : other;
                return (
                  <div key={rollout.id + at}>
                    <a class="ref" href={`/rollouts/${rollout.id}`}>{`${nameOf(rollout)} …${rollout.id.slice(-6)}`}</a>
                    {turn ? <Said turn={turn} /> : <p class="muted">It had ended.</p>}
                  </div>
                );
              })}
            </div>
            {one && other && textOf(one) !== textOf(other) && (
              <details class="rollouts-tools">
                <summary>Difference by words</summary>
                <Diff before={textOf(one)} after={textOf(other)} />
              </details>
            )}
          </section>
        );
      })}
    </Card>
  );
}
