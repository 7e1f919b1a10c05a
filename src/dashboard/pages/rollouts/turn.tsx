/** One turn: what the agent sent, what the model said, and what is known about it. */
import type { ComponentChildren } from "preact";
import { count, duration, plural } from "../../data/format.ts";
import { Button } from "../../kit/button.tsx";
import { Json } from "../../kit/json.tsx";
import { Pill } from "../../kit/pill.tsx";
import { Thread, turnsOf } from "../traces/thread.tsx";
import { answerOf, branchText } from "./turns.ts";
import type { Turn } from "./types.ts";

type TurnProps = {
  turn: Turn;
  /** Opens the playground with the conversation up to here. */
  onTry?: (() => void) | undefined;
  children?: ComponentChildren;
};

export const TurnView = ({ turn, onTry, children = <Said turn={turn} /> }: TurnProps) => (
  <section class="rollouts-turn" aria-label={`Turn ${turn.number}`}>
    <header>
      <h3>Turn {turn.number}</h3>
      {turn.status === "cancelled" && <Pill tone="warn">Left by the agent</Pill>}
      <small>{measures(turn)}</small>
      <span class="fill" />
      <a class="ref" href={`/traces/${encodeURIComponent(turn.trace_id)}`}>
        Trace
      </a>
      {onTry && (
        <Button kind="quiet" onClick={onTry} label={`Try again from turn ${turn.number}`}>
          Try again
        </Button>
      )}
    </header>
    {branchText(turn) !== undefined && <p class="rollouts-branch">{branchText(turn)}</p>}
    {children}
  </section>
);

const measures = ({ prompt_token_ids: read, kept_tokens: kept, token_ids: written, latency_ms: ms, ...turn }: Turn) =>
  [
    kept > 0
      ? `${count(read.length)} new of ${count(kept + read.length)} tokens read`
      : `${count(read.length)} tokens read`,
    `${count(written.length)} written`,
    duration(ms / 1000),
    ...(turn.first_token_ms === null ? [] : [`first after ${duration(turn.first_token_ms / 1000)}`]),
  ].join(" · ");

type Answer = { reasoning_content?: string | null };

export const Said = ({ turn }: { turn: Turn }) => {
  const answers = answerOf(turn);
  const { reasoning_content: thoughts } = (answers[0] ?? {}) as Answer;
  return (
    <>
      <Thread>
        {turnsOf(turn.messages, "user")}
        {thoughts && (
          <details class="traces-said">
            <summary>
              <small>Thoughts</small> <span>{thoughts.slice(0, 120)}</span>
            </summary>
            <pre class="text">{thoughts}</pre>
          </details>
        )}
        {answers.length === 0 ? <p class="muted">No whole answer.</p> : turnsOf(answers, "assistant")}
      </Thread>
      {turn.tools.length > 0 && (
        <details class="rollouts-tools">
          <summary>{plural(turn.tools.length, "tool")}</summary>
          <Json value={turn.tools} open={false} />
        </details>
      )}
    </>
  );
};
