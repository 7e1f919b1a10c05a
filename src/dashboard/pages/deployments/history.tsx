/** The events of a deployment, and the last error of its process. */
import { useEffect, useState } from "preact/hooks";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { Event } from "../../../resources/watching/events/schema.ts";
import { api } from "../../data/api.ts";
import { onEvent } from "../../data/events.ts";
import { words } from "../../data/format.ts";
import type { Page as ListPage } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Card } from "../../kit/card.tsx";
import { Empty, Skeleton } from "../../kit/page.tsx";
import { Pill, toneOf } from "../../kit/pill.tsx";
import { Time } from "../../kit/time.tsx";

const NAMES = ["created", "serving", "failed", "stopped", "unhealthy", "scaled_to_zero", "updated"];
const TYPES = NAMES.map((name) => `deployment.${name}`).join(",");
const MOST_PAGES = 20;

/** The feed is read from its oldest event: it has no filter by deployment. */
async function readEvents(id: string): Promise<Event[]> {
  const events: Event[] = [];
  let after = "";
  for (let page = 0; page < MOST_PAGES; page++) {
    const path = `/v1/events?limit=100&types=${TYPES}${after === "" ? "" : `&after=${after}`}`;
    const { data, has_more: hasMore } = await api<ListPage<Event>>(path);
    events.push(...data.filter((event) => event.data["id"] === id));
    after = data.at(-1)?.id ?? "";
    if (!hasMore || after === "") break;
  }
  return events.reverse();
}

export function History({ deployment: { id, last_error: error } }: { deployment: Deployment }) {
  const [events, setEvents] = useState<Event[]>();
  useEffect(() => {
    if (!may("account")) return setEvents([]);
    const load = () => void readEvents(id).then(setEvents, () => setEvents([]));
    load();
    return onEvent(["deployment."], load);
  }, [id]);
  return (
    <div class="grid">
      {error !== null && (
        <Card title="Last error">
          <pre class="text deployments-error">{error}</pre>
        </Card>
      )}
      <Card title="What happened" note="newest first">
        {events === undefined && <Skeleton rows={4} />}
        {events?.length === 0 && <Empty title="Nothing yet">Starts, stops, failures and changes appear here.</Empty>}
        <ol class="deployments-log">
          {events?.map((event) => (
            <li key={event.id}>
              <Time at={event.created_at} />
              <Pill tone={toneOf(event.type.slice("deployment.".length))}>{sayEvent(event.type)}</Pill>
            </li>
          ))}
        </ol>
      </Card>
    </div>
  );
}

const sayEvent = (type: string): string => {
  const name = type.slice("deployment.".length);
  if (name === "scaled_to_zero") return "Parked";
  return name === "updated" ? "Settings changed" : words(name);
};
