import { useState } from "preact/hooks";
import { count, duration, plural } from "../../data/format.ts";
import { messagesOf, newMessages } from "../../data/messages.ts";
import { useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { Time } from "../../kit/time.tsx";
import type { PageProps } from "../spec.ts";
import { Compare, replayConversation } from "./compare.tsx";
import { Status } from "./status.tsx";
import { Thread, Turns, turnsOf } from "./thread.tsx";
import type { Trace, WholeConversation } from "./types.ts";

export function Page({ params }: PageProps) {
  const id = params["id"] ?? "";
  const path = `/v1/traces/conversations/${encodeURIComponent(id)}`;
  const [comparing, setComparing] = useState(false);
  const conversation = useResource<WholeConversation>(path);
  const { data } = conversation;
  return (
    <Frame
      title={id}
      above={[
        ["Traces", "/traces"],
        ["Conversations", "/conversations"],
      ]}
      purpose={data ? purpose(data) : "\u00a0"}
      actions={
        data && (
          <>
            {may("inference", false) && data.traces.some(({ input }) => input !== null) && (
              <Button onClick={() => setComparing(true)}>Compare with another model</Button>
            )}
            <LinkButton href={`/traces?conversation_id=${encodeURIComponent(id)}&source=all`}>
              Show as a list
            </LinkButton>
          </>
        )
      }
    >
      <Loaded of={conversation} skeleton={<Skeleton height={420} />}>
        {({ traces, has_more }) => (
          <Card>
            <Thread>
              {traces.map((trace, i) => (
                <Request key={trace.id} trace={trace} before={traces[i - 1]} />
              ))}
              {has_more && <p class="muted">The conversation is longer. The list of its traces has the rest.</p>}
            </Thread>
          </Card>
        )}
      </Loaded>
      {comparing && (
        <Compare
          title="Compare with another model"
          send={(deployment) => replayConversation(path, deployment)}
          onClose={() => setComparing(false)}
        />
      )}
    </Frame>
  );
}

const purpose = ({ trace_count, prompt_tokens, completion_tokens }: WholeConversation) =>
  `${plural(trace_count, "request")}, ${count(prompt_tokens)} tokens in, ${count(completion_tokens)} out`;

/** One request: what is new in it, the answer, and a line with its figures. */
function Request({ trace, before }: { trace: Trace; before: Trace | undefined }) {
  const earlier = before ? [...messagesOf(before.input), ...messagesOf(before.output)] : [];
  const fresh = newMessages(earlier, messagesOf(trace.input));
  return (
    <>
      {fresh.length === 0 && trace.output === null ? (
        <p class="muted">The content of this request was not kept.</p>
      ) : (
        <>
          <Turns messages={fresh} by="user" />
          {turnsOf(trace.output, "assistant")}
        </>
      )}
      <p class="traces-line">
        <Time at={trace.started_at} />
        <span class="n">{duration(trace.duration_ms / 1000)}</span>
        <span class="n">
          {count(trace.prompt_tokens)} → {plural(trace.completion_tokens, "token")}
        </span>
        {trace.scores.map(({ id, name, value }) => (
          <span key={id}>
            {name} {String(value)}
          </span>
        ))}
        <Status of={trace} />
        <a class="ref" href={`/traces/${trace.id}`}>
          Trace
        </a>
      </p>
    </>
  );
}
