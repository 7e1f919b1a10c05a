/** One column: its model, its conversation, and what has answered. */
import { useEffect } from "preact/hooks";
import { isDeploymentOver } from "../../../lib/deployment_status.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { Model } from "../../../resources/serving/models/schema.ts";
import { api } from "../../data/api.ts";
import { duration, number } from "../../data/format.ts";
import { reload, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button, IconButton } from "../../kit/button.tsx";
import { State } from "../../kit/pill.tsx";
import { attempt } from "../../shell/toasts.tsx";
import { type Answer, isUnderWay, speedOf } from "./answer.ts";
import type { Look } from "./answer_text.tsx";
import type { Board } from "./board.ts";
import { CallResults } from "./call_results.tsx";
import { answeredBy, type Column, isExpected, keyOf } from "./columns.ts";
import { awake, type Facts, useCount, useFacts } from "./facts.ts";
import { meterOf, tokensOf } from "./meter.ts";
import { messagesOf } from "./sent.ts";
import { titleOf } from "./titles.ts";
import { openCalls, pathOf, type Turn } from "./tree.ts";
import { TurnView } from "./turn.tsx";

type ColumnProps = {
  board: Board;
  column: Column;
  deployments: readonly Deployment[];
  look: Look;
  /** A column with a conversation that this empty one can take over. */
  from: string | undefined;
  editing: string | undefined;
  onEdit: (id: string | undefined) => void;
  onChange: () => void;
  onRemove: (() => void) | undefined;
};

export function ChatColumn({ board, column, deployments, look, from, ...rest }: ColumnProps) {
  const key = keyOf(column);
  const facts = useFacts(column, deployments);
  const { title, note } = titleOf(column, facts);
  board.name(key, title);
  const host = awake(facts.deployment);
  useEffect(() => board.setHost(key, host), [board, key, host]);
  const tree = board.treeOf(key);
  const path = pathOf(tree);
  const isBusy = board.running.value.has(key);
  const calls = isBusy ? [] : openCalls(path);
  const last = path.at(-1);
  const answer = last?.role === "assistant" ? last.answer : undefined;
  return (
    <section class="playground-column" aria-label={title} aria-busy={isBusy ? true : undefined}>
      <header>
        <div>
          <h2>{title}</h2>
          <small>{note}</small>
        </div>
        <IconButton icon="swap" label={`Choose another model for ${title}`} onClick={rest.onChange} />
        {rest.onRemove && <IconButton icon="close" label={`Remove ${title}`} onClick={rest.onRemove} />}
      </header>
      <Where column={column} facts={facts} />
      {path.length === 0 && from !== undefined && (
        <Button onClick={() => board.takeOver(from, key)}>Answer the conversation beside</Button>
      )}
      {path.length > 0 && (
        <ol class="playground-turns">
          {path.map((turn, i) => (
            <TurnView
              key={turn.id}
              board={board}
              of={key}
              title={title}
              turn={turn}
              tree={tree}
              number={i + 1}
              look={look}
              isBusy={board.running.value.size > 0}
              isEditing={rest.editing === `${key} ${turn.id}`}
              onEdit={(id) => rest.onEdit(id === undefined ? undefined : `${key} ${id}`)}
            />
          ))}
        </ol>
      )}
      {calls.length > 0 && <CallResults calls={calls} onSend={(texts) => board.giveResults(key, texts)} />}
      {!isBusy && (last?.role === "user" || last?.role === "tool") && (
        <Button icon="play" onClick={() => board.answer(key)}>{`Answer with ${title}`}</Button>
      )}
      <Foot column={column} answer={answer} path={path} system={board.fields.value.system} facts={facts} />
    </section>
  );
}

/** Quiet while all is well. A deployment that a person stopped is started by a person. */
function Where({ column, facts: { deployment, agent } }: { column: Column; facts: Facts }) {
  if (agent && !deployment)
    return <p class="muted">{`Nothing serves the deployment ${agent.deployment} of this agent.`}</p>;
  if (!deployment && column.kind === "deployment") return <p class="muted">This deployment no longer exists.</p>;
  if (!deployment) return <p class="playground-where">Starts with the first message, and parks when it is idle.</p>;
  const { id, name, status, parked, load, error } = deployment;
  if (isDeploymentOver(status)) {
    const start = () => attempt(() => api(`/v1/deployments/${id}/start`, { method: "POST" }), `${name} starts`);
    return (
      <div class="row">
        <State status={status} reason={error} />
        {may("inference", false) && (
          <Button onClick={() => start().then(() => reload("/v1/deployments"))}>{`Start ${name}`}</Button>
        )}
      </div>
    );
  }
  if (parked) return <p class="playground-where">Parked. The next message wakes it.</p>;
  return status === "serving" ? null : <State status={status} reason={error ?? load.reason} />;
}

type FootProps = {
  column: Column;
  answer: Answer | undefined;
  path: readonly Turn[];
  system: string;
  facts: Facts;
};

function Foot({ column, answer, path, system, facts: { deployment, context } }: FootProps) {
  const used = tokensOf(path);
  const isBusy = answer !== undefined && isUnderWay(answer);
  const counted = useCount(awake(deployment), messagesOf(path, system), used !== undefined || isBusy);
  const meter = meterOf(used ?? counted, context);
  const speed = answer && speedOf(answer);
  const { usage, firstMs, finish, state, fingerprint = null } = answer ?? {};
  const parts = [
    usage && `${usage.prompt_tokens} + ${usage.completion_tokens} tokens`,
    speed !== undefined && `${number(speed)} tokens/s`,
    firstMs !== undefined && state === "done" && `first after ${duration(firstMs / 1000)}`,
    state === "stopped" && "stopped",
    finish === "length" && "cut at the most tokens",
  ].filter((part) => part);
  return (
    <footer class="playground-foot">
      {meter && (
        <span class={`playground-meter ${meter.tone}`}>
          <progress max={1} value={meter.share} aria-label="Context in use" />
          <span class="n">{meter.words}</span>
        </span>
      )}
      {parts.length > 0 && <span class="n">{parts.join(" · ")}</span>}
      {fingerprint !== null && <AnsweredBy column={column} fingerprint={fingerprint} deployment={deployment} />}
    </footer>
  );
}

type ProofProps = { column: Column; fingerprint: string; deployment: Deployment | undefined };

/** The proof: what the answer itself says it was decoded with, against what the column names. */
function AnsweredBy({ column, fingerprint, deployment }: ProofProps) {
  const answered = answeredBy(fingerprint);
  const path = (id: string | null | undefined) => (id ? `/v1/models/${encodeURIComponent(id)}` : null);
  const base = useResource<Model>(path(answered?.base)).data;
  const adapter = useResource<Model>(path(answered?.adapter)).data;
  const model = answered?.adapter ? adapter : base;
  if (!answered || !base || !model) return null;
  const isRight = isExpected(column, deployment, answered, model);
  return (
    <span class={isRight ? "playground-proof" : "playground-proof bad"} title={`system_fingerprint: ${fingerprint}`}>
      {isRight ? "" : "Not what this column names. "}
      {"Answered by "}
      <b>{base.name}</b>
      {adapter ? (
        <>
          {" with adapter "}
          <b>{adapter.name}</b>
        </>
      ) : (
        ", no adapter"
      )}
    </span>
  );
}
