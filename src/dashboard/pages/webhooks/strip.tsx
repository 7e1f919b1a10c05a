import type { Delivery } from "../../../resources/watching/webhooks/schema.ts";
import { type Page, useResource } from "../../data/resource.ts";
import { STATUSES } from "./words.ts";

const SHOWN = 30;

/** The newest deliveries of an endpoint as bars, the newest at the right. */
export function Strip({ id }: { id: string }) {
  const { data } = useResource<Page<Delivery>>(`/v1/webhooks/${id}/deliveries?limit=${SHOWN}`, { everyMs: 10_000 });
  const rows = data?.data.toReversed() ?? [];
  const good = rows.filter(({ status }) => status === "succeeded").length;
  const label = rows.length === 0 ? "No delivery yet" : `${good} of the newest ${rows.length} delivered`;
  return (
    <span class="webhooks-strip" role="img" aria-label={data ? label : "Loading"} title={label}>
      {Array.from({ length: SHOWN - rows.length }, (_, i) => (
        <i key={i} />
      ))}
      {rows.map((row) => (
        <i key={row.id} class={STATUSES[row.status][1]} />
      ))}
    </span>
  );
}
