import { duration } from "../../data/format.ts";
import { Button } from "../../kit/button.tsx";
import { now } from "../../kit/time.tsx";
import type { DeskItem } from "./use_desk.ts";

/** How long the item is reserved. An item that was taken back has no reservation. */
export function Lease({ held: { until }, renew }: { held: DeskItem; renew: () => Promise<void> }) {
  if (until === undefined) return <small class="muted">Taken back: save it again to change it</small>;
  const seconds = Math.ceil((until - now.value) / 1000);
  if (seconds > 0) return <small class="muted n">Reserved for you for {duration(seconds)}</small>;
  return (
    <>
      <small class="warn">The reservation has ended</small>
      <Button kind="quiet" onClick={renew}>
        Reserve again
      </Button>
    </>
  );
}
