import type { ApiKey } from "../../../resources/access/api_keys/schema.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { count, duration, money, NONE, number } from "../../data/format.ts";
import { type Page as ListPage, useResource } from "../../data/resource.ts";
import { useRunNames } from "../../data/run_names.ts";
import { may } from "../../data/session.ts";
import { Card, Facts, Stat } from "../../kit/card.tsx";
import { Ref } from "../../kit/content.tsx";
import { Id } from "../../kit/copy.tsx";
import { Json } from "../../kit/json.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { Time } from "../../kit/time.tsx";
import type { PageProps } from "../spec.ts";
import { Actions } from "./actions.tsx";
import { KeepButton } from "./not_kept.tsx";
import { Queues } from "./queues.tsx";
import { Scores } from "./scores.tsx";
import { Status, sourceName } from "./status.tsx";
import { Thread, turnsOf } from "./thread.tsx";
import type { Trace } from "./types.ts";
import { Waterfall } from "./waterfall.tsx";

export function Page({ params }: PageProps) {
  const trace = useResource<Trace>(`/v1/traces/${encodeURIComponent(params["id"] ?? "")}`);
  const { data } = trace;
  return (
    <Frame
      title={data ? `${sourceName(data.source)} request` : "Trace"}
      above={[["Traces", "/traces"]]}
      beside={data && <Status of={data} />}
      purpose={data ? <Time at={data.created_at} /> : "\u00a0"}
      actions={data && <Actions trace={data} />}
    >
      <Loaded of={trace} skeleton={<Skeleton height={420} />}>
        {(loaded) => <Whole trace={loaded} refresh={trace.refresh} />}
      </Loaded>
    </Frame>
  );
}

const seconds = (ms: number | null) => duration(ms === null ? null : ms / 1000);

/** Tokens a second, from the first token on. */
function speed({ duration_ms, ttft_ms, completion_tokens }: Trace): string {
  const ms = duration_ms - (ttft_ms ?? 0);
  return completion_tokens < 2 || ms <= 0 ? NONE : number((completion_tokens / ms) * 1000);
}

const Whole = ({ trace, refresh }: { trace: Trace; refresh: () => Promise<void> }) => (
  <div class="grid">
    <div class="grid stats">
      <Stat label="Duration" value={seconds(trace.duration_ms)} />
      <Stat label="First token" value={seconds(trace.ttft_ms)} />
      <Stat
        label="Tokens in"
        value={count(trace.prompt_tokens)}
        change={trace.cached_tokens > 0 ? `${count(trace.cached_tokens)} from cache` : undefined}
      />
      <Stat label="Tokens out" value={count(trace.completion_tokens)} />
      <Stat label="Tokens a second" value={speed(trace)} />
      <Stat label="Cost, estimated" value={money(trace.cost_usd)} />
    </div>
    <div class="grid two">
      <div class="grid">
        {trace.input === null && trace.output === null ? (
          <NoContent trace={trace} />
        ) : (
          <Card title="Conversation" side={<WholeConversation of={trace} />}>
            <Thread>
              {turnsOf(trace.input, "user")}
              {trace.output === null ? <p class="muted">No answer.</p> : turnsOf(trace.output, "assistant")}
            </Thread>
          </Card>
        )}
        <Card title="Where the time went">
          <Waterfall spans={trace.spans} durationMs={trace.duration_ms} />
        </Card>
      </div>
      <div class="grid">
        <Scores trace={trace} refresh={refresh} />
        <About trace={trace} />
        <Queues trace={trace} refresh={refresh} />
        {trace.parameters && Object.keys(trace.parameters).length > 0 && (
          <Card title="Parameters">
            <Json value={trace.parameters} open={false} />
          </Card>
        )}
      </div>
    </div>
  </div>
);

const WholeConversation = ({ of: { conversation_id: id } }: { of: Trace }) =>
  id === null ? null : (
    <a class="ref" href={`/conversations/${encodeURIComponent(id)}`}>
      Whole conversation
    </a>
  );

/** The deployment of the trace is the one to change; the button names it. */
function NoContent({ trace: { capture, deployment_id: id } }: { trace: Trace }) {
  const deployment = useResource<Deployment>(id === null ? null : `/v1/deployments/${id}`);
  return (
    <Card title="Conversation">
      <Empty
        title="The content was not kept"
        action={deployment.data && <KeepButton deployments={[deployment.data]} />}
      >
        {capture === "full"
          ? "It has more than 1 MiB, or there was none."
          : capture === "metadata"
            ? "Only parameters and metadata of this request were kept."
            : "Only times, tokens and status of this request were kept."}
      </Empty>
    </Card>
  );
}

/** Names of keys are for those who manage them. */
function KeyName({ id }: { id: string }) {
  const keys = useResource<ListPage<ApiKey>>(may("account") ? "/v1/api_keys?limit=100" : null);
  const key = keys.data?.data.find((each) => each.id === id);
  return key ? <span title={id}>{key.name}</span> : <Id text={id} />;
}

const CAPTURES = { none: "Times, tokens and status", metadata: "Also parameters and metadata", full: "Everything" };
const SHOWN_ELSEWHERE = ["conversation_id", "tags", "user", "user_id"];

function About({ trace }: { trace: Trace }) {
  const { deployment_id: id } = trace;
  const deployment = useResource<Deployment>(id === null ? null : `/v1/deployments/${id}`);
  const { conversation_id: conversation, job_id: job } = trace;
  const nameOf = useRunNames();
  const rows = [
    id !== null &&
      ([
        "Deployment",
        <Ref key="d" page="/deployments/:id" id={id}>
          {deployment.data?.name ?? (deployment.error ? id : "…")}
        </Ref>,
      ] as const),
    job !== null &&
      ([
        "Run",
        <Ref key="r" page="/runs/:id" id={job}>
          {nameOf(job)}
        </Ref>,
      ] as const),
    trace.step !== null && (["Step", count(trace.step)] as const),
    conversation !== null && (["Conversation", <Ref key="c" page="/conversations/:id" id={conversation} />] as const),
    ["Model", trace.model === null ? NONE : nameOf(trace.model)] as const,
    trace.adapter !== null &&
      !trace.adapter.startsWith(id ?? "none") && // the adapter that the deployment itself names
      (["Adapter", trace.adapter] as const),
    trace.agent_id !== null && (["Agent", `${trace.agent_id} version ${trace.agent_version}`] as const),
    ["HTTP status", String(trace.status)] as const,
    trace.error_code !== null && (["Error", trace.error_code] as const),
    trace.user !== null &&
      ([
        "User",
        <a key="u" class="ref" href={`/traces?user=${encodeURIComponent(trace.user)}`}>
          {trace.user}
        </a>,
      ] as const),
    trace.tags.length > 0 && (["Tags", trace.tags.join(", ")] as const),
    ["Id", <Id key="id" text={trace.id} />] as const,
    ["Kept", CAPTURES[trace.capture]] as const,
    ["Key", trace.key_id === null ? NONE : <KeyName key="k" id={trace.key_id} />] as const,
    ...Object.entries(trace.metadata)
      .filter(([name]) => !SHOWN_ELSEWHERE.includes(name))
      .map(([name, value]) => [name, value] as const),
  ];
  return (
    <Card title="About">
      <Facts rows={rows.filter((row) => row !== false)} />
    </Card>
  );
}
