/** The events of the workspace: those of the past, and new ones as they happen. */
import { useEffect, useState } from "preact/hooks";
import type { Event } from "../../../resources/watching/events/schema.ts";
import { connection, onEvent } from "../../data/events.ts";
import { useList } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { TextField } from "../../kit/field.tsx";
import { Json } from "../../kit/json.tsx";
import { Empty, Loaded, Skeleton } from "../../kit/page.tsx";
import { More } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";

const MOST_LIVE = 200;
type Shown = Omit<Event, "type"> & { type: string };

/** Events since the page was opened, newest first. */
function useLive(): readonly Shown[] {
  const [live, setLive] = useState<readonly Shown[]>([]);
  useEffect(
    () => onEvent([""], (event) => event && setLive((before) => [event as Shown, ...before].slice(0, MOST_LIVE))),
    [],
  );
  return live;
}

export function Feed() {
  const live = useLive();
  const past = useList<Shown>("/v1/events?order=desc&limit=50");
  const [held, setHeld] = useState<readonly Shown[] | undefined>(undefined);
  const filter = queryOf("type") ?? "";
  const now = held ?? live;
  const known = new Set(now.map(({ id }) => id));
  const all = [...now, ...(past.items ?? []).filter(({ id }) => !known.has(id))];
  const shown = all.filter(({ type }) => type.includes(filter.trim()));
  return (
    <Card
      title="Events"
      note={connection.value === "live" ? "live" : connection.value}
      side={<Button onClick={() => setHeld(held ? undefined : live)}>{held ? "Resume" : "Pause"}</Button>}
    >
      <div class="stack">
        <TextField
          label="Type contains"
          type="search"
          value={filter}
          onInput={(type) => setQuery({ type })}
          placeholder="job."
        />
        <Loaded of={{ ...past, data: past.items }} skeleton={<Skeleton rows={8} />}>
          {() =>
            shown.length === 0 ? (
              <Empty
                title={all.length === 0 ? "No event yet" : "No event has this type"}
                command="verk webhooks listen --forward http://localhost:3000/hook"
              >
                Events appear here when they happen: a run that starts, a deployment that serves, a dataset that grows.
              </Empty>
            ) : (
              <List events={shown} />
            )
          }
        </Loaded>
      </div>
      <More list={past} />
    </Card>
  );
}

const List = ({ events }: { events: readonly Shown[] }) => (
  <ol class="webhooks-feed">
    {events.map((event) => (
      <li key={event.id}>
        <details>
          <summary>
            <b>{event.type}</b>
            <Time at={event.created_at} />
            <code>{String(event.data["name"] ?? event.data["id"] ?? "")}</code>
          </summary>
          <Json value={event.data} />
        </details>
      </li>
    ))}
  </ol>
);
