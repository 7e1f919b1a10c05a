/** The deliveries of an endpoint, newest first. The open one is in the address: `?delivery=dlv_…`. */
import { useSignal } from "@preact/signals";
import { Fragment } from "preact";
import { PUBLISHED_TYPES } from "../../../lib/webhooks/published.ts";
import type { Delivery, DeliveryWithRequest } from "../../../resources/watching/webhooks/schema.ts";
import { api } from "../../data/api.ts";
import { exactTime, plural } from "../../data/format.ts";
import { type List, reload, useList, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { SelectField } from "../../kit/field.tsx";
import { Empty, Loaded, Skeleton } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { More } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import { AnswerPill, Attempts } from "./attempts.tsx";
import { Overview } from "./overview.tsx";
import { SentRequest } from "./request.tsx";
import { ResendFailed } from "./resend_failed.tsx";
import { STATUSES } from "./words.ts";

const LISTED = 100;
const EVERY_MS = 2_000;
const ANY = "";
const STATES = Object.entries(STATUSES).map(([value, [shown]]) => [value, shown] as const);
const KINDS = [...PUBLISHED_TYPES, "webhook.test"].map((type) => [type, type] as const);

type TimelineProps = { path: string; isEnabled: boolean; onTest: () => void };

export function Timeline({ path, isEnabled, onTest }: TimelineProps) {
  const [state, kind] = [queryOf("state") ?? ANY, queryOf("kind") ?? ANY];
  const filter = [
    ["status", state],
    ["event_type", kind],
  ]
    .flatMap(([name, value]) => (value === ANY ? [] : [`&${name}=${encodeURIComponent(value ?? "")}`]))
    .join("");
  const all = useList<Delivery>(`${path}/deliveries?limit=${LISTED}`, { events: [""], everyMs: EVERY_MS });
  const chosen = useList<Delivery>(`${path}/deliveries?limit=${LISTED}${filter}`, {
    everyMs: EVERY_MS,
  });
  const isRecovering = useSignal(false);
  const mayWrite = may("account", false);
  return (
    <Loaded of={{ ...all, data: all.items }} skeleton={<Skeleton height={360} />}>
      {(items) =>
        items.length === 0 ? (
          <Card title="Deliveries">
            <Empty
              title="No delivery yet"
              action={mayWrite && isEnabled && <Button onClick={onTest}>Send test event</Button>}
            >
              Every event that is sent here appears in a timeline, with the request and the answer.
            </Empty>
          </Card>
        ) : (
          <div class="grid">
            <Overview deliveries={items.slice(0, LISTED)} />
            <Card
              title="Deliveries"
              side={
                mayWrite && (
                  <Button onClick={() => (isRecovering.value = true)} disabled={!isEnabled}>
                    Resend what failed
                  </Button>
                )
              }
            >
              <div class="filters webhooks-filters">
                <SelectField
                  label="State"
                  value={state}
                  options={[[ANY, "All states"], ...STATES]}
                  onChange={(next: string) => setQuery({ state: next })}
                />
                <SelectField
                  label="Kind"
                  value={kind}
                  options={[[ANY, "All kinds"], ...KINDS]}
                  onChange={(next: string) => setQuery({ kind: next })}
                />
              </div>
              <Matches list={chosen} path={path} isEnabled={isEnabled} />
            </Card>
            {isRecovering.value && <ResendFailed path={path} onClose={() => (isRecovering.value = false)} />}
          </div>
        )
      }
    </Loaded>
  );
}

const dayOf = (iso: string) => new Date(iso).toLocaleDateString("en-GB", { dateStyle: "full" });

function Matches({ list, path, isEnabled }: { list: List<Delivery>; path: string; isEnabled: boolean }) {
  const clear = () => setQuery({ state: undefined, kind: undefined });
  return (
    <Loaded of={{ ...list, data: list.items }} skeleton={<Skeleton rows={8} />}>
      {(items) => (
        <>
          {items.length === 0 && !list.hasMore && (
            <Empty title="No delivery is like this" action={<Button onClick={clear}>Show all</Button>} />
          )}
          <ol class="webhooks-timeline">
            {items.map((delivery, i) => {
              const day = dayOf(delivery.created_at);
              const before = items[i - 1];
              return (
                <Fragment key={delivery.id}>
                  {(before === undefined || dayOf(before.created_at) !== day) && <li class="webhooks-day">{day}</li>}
                  <li class={STATUSES[delivery.status][1]}>
                    <One delivery={delivery} path={path} isEnabled={isEnabled} />
                  </li>
                </Fragment>
              );
            })}
          </ol>
          <More list={list} />
        </>
      )}
    </Loaded>
  );
}

type OneProps = { delivery: Delivery; path: string; isEnabled: boolean };

function One({ delivery, path, isEnabled }: OneProps) {
  const { id, event_type: type, status, attempts, attempt_count: count, next_attempt_at: next } = delivery;
  const isOpen = queryOf("delivery") === id;
  const last = attempts.at(-1);
  const resend = async () => {
    await attempt(() => api(`${path}/deliveries/${id}/resend`, { method: "POST" }), `${type} is sent again`);
    await reload(path);
  };
  return (
    <>
      <div class="webhooks-delivery">
        <button
          type="button"
          class="plain"
          aria-expanded={isOpen}
          onClick={() => setQuery({ delivery: isOpen ? undefined : id })}
        >
          <time dateTime={delivery.created_at} title={exactTime(delivery.created_at)}>
            {new Date(delivery.created_at).toLocaleTimeString("en-GB")}
          </time>
          <b>{type}</b>
        </button>
        <Pill tone={STATUSES[status][1]}>{STATUSES[status][0]}</Pill>
        <span class="webhooks-last">
          {last && <AnswerPill attempt={last} />}
          <small class="muted">
            {count === 0 ? "no attempt yet" : plural(count, "attempt")}
            {next !== null && (
              <>
                {", next "}
                <Time at={next} />
              </>
            )}
          </small>
        </span>
        {may("account", false) && (
          <Button
            kind={status === "succeeded" ? "quiet" : undefined}
            onClick={resend}
            label={`Resend ${type}`}
            disabled={!isEnabled}
          >
            Resend
          </Button>
        )}
      </div>
      {isOpen && <Opened delivery={delivery} path={path} />}
    </>
  );
}

function Opened({
  delivery: { id, event_id: event, expires_at: until, status, attempts },
  path,
}: Omit<OneProps, "isEnabled">) {
  const full = useResource<DeliveryWithRequest>(`${path}/deliveries/${id}`, { everyMs: 10_000 });
  return (
    <div class="webhooks-opened">
      <p class="muted">
        <code>{event}</code>
        {status === "pending" && `, tried until ${exactTime(until)}`}
      </p>
      <Loaded of={full} skeleton={<Skeleton height={120} />}>
        {({ request }) => <SentRequest request={request} />}
      </Loaded>
      <Attempts attempts={attempts} />
    </div>
  );
}
