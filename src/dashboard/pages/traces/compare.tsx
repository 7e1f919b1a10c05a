/** The same request to another model, with the differences of the answers by words. */
import { useState } from "preact/hooks";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { Replay } from "../../../resources/watching/traces/conversations/schema.ts";
import { api } from "../../data/api.ts";
import { plural } from "../../data/format.ts";
import { messagesOf } from "../../data/messages.ts";
import { type Page, useResource } from "../../data/resource.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { Diff } from "../../kit/diff.tsx";
import { SelectField } from "../../kit/field.tsx";
import { attempt } from "../../shell/toasts.tsx";
import { answerOf, requestOf } from "./request.ts";
import type { Trace } from "./types.ts";

export type Comparison = {
  /** The question, in short. */
  question: string;
  before: string;
  after: string;
  error: string | null;
  traceId: string | null;
};

type Props = {
  title: string;
  /** Sends the request or requests, and gives the answers. */
  send: (deployment: Deployment) => Promise<readonly Comparison[]>;
  onClose: () => void;
};

type Answer = { choices?: { message?: unknown; text?: string }[] };

/** A trace alone: its request is sent to the deployment. */
export async function sendAgain(trace: Trace, { name }: Deployment): Promise<readonly Comparison[]> {
  const request = requestOf(trace, name);
  if (!request) return [];
  const body = { ...request.body, metadata: { replay_of: trace.id } };
  const { choices } = await api<Answer>(request.path, { method: "POST", body });
  const after = answerOf((choices ?? []).map(({ message, text }) => message ?? text));
  const question = messagesOf(trace.input).at(-1)?.text ?? "";
  return [{ question, before: answerOf(trace.output), after, error: null, traceId: null }];
}

/** All requests of a conversation, in their order. */
export async function replayConversation(path: string, { id }: Deployment): Promise<readonly Comparison[]> {
  const { data } = await api<Replay>(`${path}/replay`, { method: "POST", body: { deployment_id: id } });
  return data.map(({ input, recorded_output, output, error, replay_trace_id }) => ({
    question: messagesOf(input).at(-1)?.text ?? "",
    before: answerOf(recorded_output),
    after: answerOf(output),
    error,
    traceId: replay_trace_id,
  }));
}

export function Compare({ title, send, onClose }: Props) {
  const deployments = useResource<Page<Deployment>>("/v1/deployments?limit=100").data?.data;
  const [id, setId] = useState("");
  const [answers, setAnswers] = useState<{ of: Deployment; list: readonly Comparison[] }>();
  const chosen = deployments?.find((each) => each.id === id) ?? deployments?.[0];
  const run = async () => {
    if (!chosen) return;
    const list = await attempt(() => send(chosen));
    if (list) setAnswers({ of: chosen, list });
  };
  return (
    <Dialog title={title} onClose={onClose} wide>
      <div class="stack">
        {deployments?.length === 0 ? (
          <p class="muted">No model is deployed.</p>
        ) : (
          <SelectField
            label="Answered by"
            value={chosen?.id ?? ""}
            options={(deployments ?? []).map((each) => [each.id, each.name] as const)}
            onChange={setId}
            hint="Each request is sent again with its parameters, and has a trace of its own"
          />
        )}
        {answers && <Answers of={answers.list} name={answers.of.name} />}
      </div>
      <footer>
        <Button onClick={onClose}>Close</Button>
        {deployments?.length === 0 ? (
          <LinkButton href="/deployments/new" kind="primary">
            New deployment
          </LinkButton>
        ) : (
          <Button kind="primary" onClick={run} disabled={!chosen}>
            Send again
          </Button>
        )}
      </footer>
    </Dialog>
  );
}

const Answers = ({ of, name }: { of: readonly Comparison[]; name: string }) => (
  <section class="stack traces-compared" aria-label="Answers">
    <p class="muted" role="status">
      {name} gave {plural(of.filter(({ error }) => error === null).length, "answer")};{" "}
      {of.filter(({ before, after }) => before === after).length} the same as before. <del>Before</del>, <ins>now</ins>.
    </p>
    {of.map(({ question, before, after, error, traceId }, i) => (
      <article key={i} class="traces-said answer">
        <small>
          {question.slice(0, 160)}
          {traceId !== null && (
            <>
              {" "}
              <a class="ref" href={`/traces/${traceId}`}>
                Trace
              </a>
            </>
          )}
        </small>
        {error === null ? <Diff before={before} after={after} /> : <p class="bad">{error}</p>}
      </article>
    ))}
  </section>
);
