import { useState } from "preact/hooks";
import type { Monitor } from "../../../resources/watching/monitors/schema.ts";
import { api } from "../../data/api.ts";
import { reload } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { now } from "../../kit/time.tsx";
import { attempt } from "../../shell/toasts.tsx";
import { isMuted } from "./words.ts";

const TIMES = [
  ["1 hour", 3_600],
  ["8 hours", 8 * 3_600],
  ["1 day", 86_400],
  ["7 days", 7 * 86_400],
] as const;

export function Mute({ monitor, path }: { monitor: Monitor; path: string }) {
  const [isOpen, setIsOpen] = useState(false);
  const mute = async (body: { seconds: number } | { until: null }, done: string) => {
    await attempt(() => api(`${path}/mute`, { method: "POST", body }), done);
    setIsOpen(false);
    await reload(path);
  };
  if (isMuted(monitor, now.value)) return <Button onClick={() => mute({ until: null }, "Unmuted")}>Unmute</Button>;
  return (
    <>
      <Button onClick={() => setIsOpen(true)}>Mute</Button>
      {isOpen && (
        <Dialog title="Mute for how long?" onClose={() => setIsOpen(false)}>
          <p class="muted">
            The monitor goes on, and sends no events. If its state is another one at the end, the event follows.
          </p>
          <div class="row monitors-mute">
            {TIMES.map(([shown, seconds]) => (
              <Button key={shown} onClick={() => mute({ seconds }, `Muted for ${shown}`)}>
                {shown}
              </Button>
            ))}
          </div>
        </Dialog>
      )}
    </>
  );
}
