import type { Delivery } from "../../../resources/watching/webhooks/schema.ts";
import { api } from "../../data/api.ts";
import { duration, exactTime } from "../../data/format.ts";
import { type Page as ListPage, reload, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Loaded } from "../../kit/page.tsx";
import { Pill, State } from "../../kit/pill.tsx";
import { Time } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import { deliveryOf } from "./words.ts";

/** The newest fifty. The open one is in the address: `?delivery=whd_…`. */
export function Deliveries({ path }: { path: string }) {
  const list = useResource<ListPage<Delivery>>(`${path}/deliveries`, { events: [""], everyMs: 2_000 });
  return (
    <Card title="Deliveries" note="the newest 50">
      <Loaded of={list}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="No delivery yet">Send a test event to see one.</Empty>
          ) : (
            <ul class="webhooks-deliveries">
              {data.map((delivery) => (
                <li key={delivery.id}>
                  <One delivery={delivery} path={path} />
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  );
}

function One({ delivery, path }: { delivery: Delivery; path: string }) {
  const isOpen = queryOf("delivery") === delivery.id;
  const resend = async () => {
    const address = `${path}/deliveries/${delivery.id}/resend`;
    await attempt(() => api(address, { method: "POST" }), `${delivery.event_type} is sent again`);
    await reload(path);
  };
  return (
    <>
      <div class="webhooks-delivery">
        <button
          type="button"
          class="plain"
          aria-expanded={isOpen}
          onClick={() => setQuery({ delivery: isOpen ? undefined : delivery.id })}
        >
          <b>{delivery.event_type}</b>
          <small>
            <Time at={delivery.created_at} />
          </small>
        </button>
        <State {...deliveryOf(delivery)} />
        <span class="muted webhooks-next">
          {delivery.next_attempt_at !== null && (
            <>
              {"next attempt "}
              <Time at={delivery.next_attempt_at} />
            </>
          )}
        </span>
        {may("account", false) && (
          <Button onClick={resend} label={`Resend ${delivery.event_type}`}>
            Resend
          </Button>
        )}
      </div>
      {isOpen && <Attempts delivery={delivery} />}
    </>
  );
}

const Attempts = ({ delivery: { attempts, event_id: event, expires_at: until, status } }: { delivery: Delivery }) => (
  <div class="webhooks-attempts">
    <p class="muted">
      <code>{event}</code>
      {status === "pending" && `, tried until ${exactTime(until)}`}
    </p>
    {attempts.length === 0 && <p>No attempt yet.</p>}
    <ol>
      {attempts.toReversed().map((each) => (
        <li key={each.number}>
          <div class="row">
            <b>{`Attempt ${each.number}`}</b>
            <Pill tone={isSuccess(each.response_code) ? "good" : "bad"}>
              {each.response_code === null ? (each.error_code ?? "no answer") : `answered ${each.response_code}`}
            </Pill>
            <small class="muted">
              <Time at={each.attempted_at} />
              {`, ${each.trigger}, took ${duration(each.duration_ms / 1000)}`}
            </small>
          </div>
          {each.error_message !== null && <p class="bad">{each.error_message}</p>}
          {each.response_body !== null && each.response_body !== "" && <pre class="text">{each.response_body}</pre>}
        </li>
      ))}
    </ol>
  </div>
);

const isSuccess = (code: number | null): boolean => code !== null && code >= 200 && code < 300;
