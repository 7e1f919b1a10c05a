/** Events as they happen, for as long as the tab is open. */
import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { connection, type FeedEvent, onEvent } from "../../data/events.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { TextField } from "../../kit/field.tsx";
import { Json } from "../../kit/json.tsx";
import { Empty } from "../../kit/page.tsx";
import { Time } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";

const MOST = 200;
type Shown = FeedEvent & { created_at?: string };

const events = signal<readonly Shown[]>([]);
onEvent([""], (event) => {
  if (event) events.value = [event, ...events.value].slice(0, MOST);
});

export function Feed() {
  const [isHeld, setHeld] = useState<readonly Shown[] | undefined>(undefined);
  const filter = queryOf("type") ?? "";
  const all = isHeld ?? events.value;
  const shown = all.filter(({ type }) => type.includes(filter));
  return (
    <Card
      title="Live events"
      note={connection.value === "live" ? "connected" : connection.value}
      side={<Button onClick={() => setHeld(isHeld ? undefined : events.value)}>{isHeld ? "Go on" : "Hold"}</Button>}
    >
      <div class="stack">
        <TextField
          label="Type contains"
          type="search"
          value={filter}
          onInput={(type) => setQuery({ type })}
          placeholder="job."
        />
        {shown.length === 0 ? (
          <Empty title="No event yet" command="verk webhooks listen --forward http://localhost:3000/hook">
            Events appear here when they happen: a run that starts, a deployment that serves, a dataset that grows.
          </Empty>
        ) : (
          <ol class="webhooks-feed">
            {shown.map((event) => (
              <li key={event.id}>
                <details>
                  <summary>
                    <b>{event.type}</b>
                    <Time at={event.created_at} />
                    <code>{String(event.data["id"] ?? "")}</code>
                  </summary>
                  <Json value={event.data} />
                </details>
              </li>
            ))}
          </ol>
        )}
      </div>
    </Card>
  );
}
