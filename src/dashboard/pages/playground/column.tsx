/** One column: its title, its state, its answer, and what has answered. */
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { Model } from "../../../resources/serving/models/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import { api } from "../../data/api.ts";
import { duration, number } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button, IconButton } from "../../kit/button.tsx";
import { State } from "../../kit/pill.tsx";
import { attempt } from "../../shell/toasts.tsx";
import { type Answer, speedOf } from "./answer.ts";
import { answeredBy, type Column, isExpected } from "./columns.ts";
import { type Checkpoints, deployBody, titleOf } from "./titles.ts";
import { spansOf, toneOf, wordsOf } from "./tokens.ts";

type ColumnProps = {
  column: Column;
  /** Undefined: nothing serves it yet. */
  deployment: Deployment | undefined;
  answer: Answer | undefined;
  isColoured: boolean;
  onRemove: () => void;
  onDeployed: () => Promise<void>;
};

export function AnswerColumn({ column, deployment, answer, isColoured, onRemove, onDeployed }: ColumnProps) {
  const jobId = column.kind === "run" ? column.job : deployment?.source === "training_job" ? deployment.model : null;
  const canRead = jobId !== null && may("training");
  const job = useResource<TrainingJob>(canRead ? `/v1/training_jobs/${jobId}` : null).data;
  const checkpoints = useResource<Checkpoints>(
    canRead ? `/v1/training_jobs/${jobId}/checkpoints?limit=100` : null,
  ).data;
  const { title, note } = titleOf(column, deployment, job, checkpoints);
  const deploy = async () => {
    const body = deployBody(column, title);
    if (body) await attempt(() => api("/v1/deployments", { method: "POST", body }), `${title} is being deployed`);
    await onDeployed();
  };
  return (
    <section class="card playground-column" aria-label={title}>
      <header>
        <div>
          <h2>{title}</h2>
          <small>{note}</small>
        </div>
        <IconButton icon="close" label={`Remove ${title}`} onClick={onRemove} />
      </header>
      {deployment === undefined ? (
        <div class="playground-unserved">
          <p class="muted">
            {column.kind === "deployment" ? "This deployment no longer exists." : "Nothing serves this yet."}
          </p>
          {column.kind !== "deployment" && <Button onClick={deploy}>{`Deploy ${title}`}</Button>}
        </div>
      ) : (
        <>
          {!(deployment.status === "serving" && !deployment.parked) && <Where deployment={deployment} />}
          {answer === undefined ? (
            <p class="playground-text faint">The answer appears here.</p>
          ) : (
            <Text answer={answer} isColoured={isColoured} />
          )}
          {answer && <Foot column={column} answer={answer} deployment={deployment} />}
        </>
      )}
    </section>
  );
}

const Where = ({ deployment: { status, parked, load, error } }: { deployment: Deployment }) => (
  <State
    status={parked ? "parked" : status}
    reason={error ?? load.reason ?? (parked ? "The prompt wakes it." : undefined)}
  />
);

function Text({ answer, isColoured }: { answer: Answer; isColoured: boolean }) {
  const { state, text, tokens, calls, error, note } = answer;
  const withTokens = isColoured && tokens.length > 0 && calls.length === 0;
  return (
    <div
      class="playground-text"
      aria-live="polite"
      aria-busy={state === "waiting" || state === "streaming" ? true : undefined}
    >
      {state === "waiting" && <p class="muted">{note === "" ? "Waits for the first token" : `Wakes: ${note}`}</p>}
      <pre class="text">
        {withTokens
          ? spansOf(tokens).map((span, i) => (
              <span key={i} class={`playground-token ${toneOf(span.share)}`} title={wordsOf(span)}>
                {span.text}
              </span>
            ))
          : text}
      </pre>
      {calls.map(({ name, text: args }, i) => (
        <pre key={i} class="text playground-call">{`${name}(${args})`}</pre>
      ))}
      {error !== "" && (
        <p class="bad" role="alert">
          {error}
        </p>
      )}
    </div>
  );
}

type FootProps = { column: Column; answer: Answer; deployment: Deployment };

function Foot({ column, answer, deployment }: FootProps) {
  const { usage, firstMs, finish, state } = answer;
  const speed = speedOf(answer);
  const parts = [
    usage && `${usage.prompt_tokens} + ${usage.completion_tokens} tokens`,
    speed !== undefined && `${number(speed)} tokens/s`,
    firstMs !== undefined && `first after ${duration(firstMs / 1000)}`,
    state === "stopped" && "stopped",
    finish === "length" && "cut at the most tokens",
  ].filter((part) => part);
  return (
    <footer class="playground-foot">
      <span class="n">{parts.join(" · ")}</span>
      {answer.fingerprint !== null && <AnsweredBy column={column} answer={answer} deployment={deployment} />}
    </footer>
  );
}

/** The proof: what the answer itself says it was decoded with, against what the column names. */
function AnsweredBy({ column, answer: { fingerprint }, deployment }: FootProps) {
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
