/** Silences of a monitor: until when it sends no events. */
import { useState } from "preact/hooks";
import type { Monitor } from "../../../resources/watching/monitors/schema.ts";
import { api } from "../../data/api.ts";
import { exactTime } from "../../data/format.ts";
import { reload } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { TextField } from "../../kit/field.tsx";
import { now, Time } from "../../kit/time.tsx";
import { attempt } from "../../shell/toasts.tsx";
import { isMuted } from "./words.ts";

const TIMES = [
  ["1 hour", 3_600],
  ["8 hours", 8 * 3_600],
  ["1 day", 86_400],
  ["7 days", 7 * 86_400],
] as const;

export function Silence({ monitor, path }: { monitor: Monitor; path: string }) {
  const [until, setUntil] = useState("");
  const mute = async (body: { seconds: number } | { until: string | null }, done: string) => {
    await attempt(() => api(`${path}/mute`, { method: "POST", body }), done);
    setUntil("");
    await reload(path);
  };
  const end = Date.parse(until);
  const { muted_until: mutedUntil } = monitor;
  return (
    <Card title="Silence" note="no events for a time">
      {mutedUntil !== null && isMuted(monitor, now.value) ? (
        <div class="stack">
          <p>
            <b>{`Muted until ${exactTime(mutedUntil)}`}</b>
            <br />
            <span class="muted">
              {"It ends "}
              <Time at={mutedUntil} />
              {". If the state is another one then, the event follows."}
            </span>
          </p>
          {may("training", false) && (
            <div class="row">
              <Button onClick={() => mute({ until: null }, "Unmuted")}>Unmute</Button>
            </div>
          )}
        </div>
      ) : (
        <div class="stack">
          <p class="muted">
            A muted monitor goes on measuring and sends no events. If its state is another one at the end, the event
            follows.
          </p>
          {may("training", false) && (
            <>
              <div class="row">
                {TIMES.map(([shown, seconds]) => (
                  <Button
                    key={shown}
                    label={`Mute for ${shown}`}
                    onClick={() => mute({ seconds }, `Muted for ${shown}`)}
                  >
                    {shown}
                  </Button>
                ))}
              </div>
              <form
                class="row monitors-until"
                onSubmit={(event) => {
                  event.preventDefault();
                  if (end > Date.now()) void mute({ until: new Date(end).toISOString() }, "Muted");
                }}
              >
                <TextField label="Or until" type="datetime-local" value={until} onInput={setUntil} />
                <Button submit disabled={!(end > now.value)}>
                  Mute
                </Button>
              </form>
            </>
          )}
        </div>
      )}
    </Card>
  );
}
