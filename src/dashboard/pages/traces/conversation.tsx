import { count, duration, plural } from "../../data/format.ts";
import { messagesOf, newMessages } from "../../data/messages.ts";
import { useResource } from "../../data/resource.ts";
import { LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { MessageList, Messages } from "../../kit/content.tsx";
import { Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { Time } from "../../kit/time.tsx";
import type { PageProps } from "../spec.ts";
import { Status } from "./status.tsx";
import type { Trace, WholeConversation } from "./types.ts";

export function Page({ params }: PageProps) {
  const id = params["id"] ?? "";
  const conversation = useResource<WholeConversation>(`/v1/traces/conversations/${encodeURIComponent(id)}`);
  const { data } = conversation;
  return (
    <Frame
      title={id}
      above={[
        ["Traces", "/traces"],
        ["Conversations", "/conversations"],
      ]}
      purpose={data ? purpose(data) : "\u00a0"}
      actions={<LinkButton href={`/traces?conversation_id=${encodeURIComponent(id)}`}>Show as a list</LinkButton>}
    >
      <Loaded of={conversation} skeleton={<Skeleton height={420} />}>
        {({ traces, has_more }) => (
          <div class="grid">
            {traces.map((trace, i) => (
              <Turn key={trace.id} trace={trace} before={traces[i - 1]} />
            ))}
            {has_more && <p class="muted">The conversation is longer. The list of its traces has the rest.</p>}
          </div>
        )}
      </Loaded>
    </Frame>
  );
}

const purpose = ({ trace_count, prompt_tokens, completion_tokens }: WholeConversation) =>
  `${plural(trace_count, "request")}, ${count(prompt_tokens)} tokens in, ${count(completion_tokens)} out`;

/** One request: what is new in it, and the answer. */
function Turn({ trace, before }: { trace: Trace; before: Trace | undefined }) {
  const earlier = before ? [...messagesOf(before.input), ...messagesOf(before.output)] : [];
  const fresh = newMessages(earlier, messagesOf(trace.input));
  return (
    <Card
      class="traces-turn"
      side={
        <>
          <Time at={trace.started_at} />
          <small class="n">{duration(trace.duration_ms / 1000)}</small>
          <Status of={trace} />
          <a class="ref" href={`/traces/${trace.id}`}>
            Trace
          </a>
        </>
      }
    >
      {fresh.length === 0 && trace.output === null ? (
        <p class="muted">The content of this request was not kept.</p>
      ) : (
        <div class="messages">
          <MessageList messages={fresh} by="user" />
          <Messages of={trace.output} by="assistant" />
        </div>
      )}
    </Card>
  );
}
