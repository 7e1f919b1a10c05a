/** Sends a test event and shows the answer in the same dialog. */
import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { Delivery, DeliveryWithRequest } from "../../../resources/watching/webhooks/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { reload, useResource } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { ErrorBox, Skeleton } from "../../kit/page.tsx";
import { setQuery } from "../../shell/router.ts";
import { Answer, AnswerPill } from "./attempts.tsx";
import { SentRequest } from "./request.tsx";

const OFTEN_MS = 400;

export function TestEvent({ path, onClose }: { path: string; onClose: () => void }) {
  const [id, setId] = useState<string | undefined>(undefined);
  const [error, setError] = useState<ApiError | undefined>(undefined);
  const [isAnswered, setAnswered] = useState(false);
  const address = id === undefined ? null : `${path}/deliveries/${id}`;
  const delivery = useResource<DeliveryWithRequest>(address, { everyMs: isAnswered ? undefined : OFTEN_MS });
  const attempt = delivery.data?.attempts.at(-1);
  const send = async () => {
    setError(undefined);
    setAnswered(false);
    setId(undefined);
    try {
      setId((await api<Delivery>(`${path}/test`, { method: "POST" })).id);
    } catch (cause) {
      setError(cause instanceof ApiError ? cause : new ApiError(0, null, errorText(cause)));
    }
  };
  useEffect(() => void send(), []);
  useEffect(() => {
    if (!attempt) return;
    setAnswered(true);
    void reload(path);
  }, [attempt?.number]);
  const open = () => {
    onClose();
    setQuery({ delivery: id, tab: undefined, state: undefined, kind: undefined });
  };
  return (
    <Dialog title="Test event" onClose={onClose} wide>
      <div class="stack webhooks-test" aria-live="polite">
        {error && <ErrorBox error={error} title="The test event was not sent" />}
        {!error && !attempt && (
          <>
            <p class="muted">The event webhook.test is sent. An answer takes 10 seconds at most.</p>
            <Skeleton height={64} />
          </>
        )}
        {attempt && delivery.data && (
          <>
            <section class="webhooks-answer" aria-label="Answer">
              <AnswerPill attempt={attempt} />
              <Answer attempt={attempt} />
              {delivery.data.status === "pending" && (
                <p class="muted">The event waits for its next attempt, like any other.</p>
              )}
            </section>
            <SentRequest request={delivery.data.request} />
          </>
        )}
      </div>
      <footer>
        <Button onClick={open} disabled={id === undefined}>
          Show in the timeline
        </Button>
        <Button kind="primary" onClick={send} disabled={!error && !attempt}>
          Send again
        </Button>
      </footer>
    </Dialog>
  );
}
