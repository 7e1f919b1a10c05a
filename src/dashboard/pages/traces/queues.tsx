import { useState } from "preact/hooks";
import type { AnnotationQueue } from "../../../resources/quality/annotation_queues/schema.ts";
import { api } from "../../data/api.ts";
import { words } from "../../data/format.ts";
import { type Page, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { SelectField } from "../../kit/field.tsx";
import { attempt } from "../../shell/toasts.tsx";
import type { Trace } from "./types.ts";

/** Annotation queues that have this answer, and a way into one more. */
export function Queues({ trace, refresh }: { trace: Trace; refresh: () => Promise<void> }) {
  const queues = useResource<Page<AnnotationQueue>>(may("training") ? "/v1/annotation_queues?limit=100" : null);
  const [chosen, setChosen] = useState("");
  const all = queues.data?.data ?? [];
  const links = trace.annotation_items ?? [];
  const single = all.filter(({ mode }) => mode === "single");
  const mayAdd = trace.capture === "full" && may("training", false);
  const canAdd = mayAdd && single.length > 0;
  if (links.length === 0 && !mayAdd) return null;
  const queueId = chosen || single[0]?.id;
  const add = async () => {
    const body = { items: [{ trace_ids: [trace.id] }] };
    await attempt(() => api(`/v1/annotation_queues/${queueId}/items`, { method: "POST", body }), "Sent to the queue");
    await refresh();
  };
  return (
    <Card title="Send to a queue">
      <div class="stack traces-queue">
        {links.map(({ id, queue_id, status }) => (
          <a key={id} class="ref" href={`/annotate/${queue_id}`}>
            {all.find((each) => each.id === queue_id)?.name ?? queue_id} ({words(status).toLowerCase()})
          </a>
        ))}
        {canAdd && (
          <>
            <SelectField
              label="Queue"
              value={queueId ?? ""}
              options={single.map(({ id, name }) => [id, name] as const)}
              onChange={setChosen}
            />
            <Button onClick={add}>Send to queue</Button>
          </>
        )}
        {mayAdd && queues.data && single.length === 0 && (
          <>
            <p class="muted">People judge answers in a queue. There is none for single answers yet.</p>
            <LinkButton href="/annotate">Annotation queues</LinkButton>
          </>
        )}
      </div>
    </Card>
  );
}
