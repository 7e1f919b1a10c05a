import { lifecycle } from "../../../events/lifecycle.ts";
import { type DeliveryRow, type EndpointRow, webhookDeliveries, webhookEndpoints } from "./table.ts";

export const report = ({ id, status }: Pick<EndpointRow, "id" | "status">) => ({
  object: "webhook_endpoint" as const,
  id,
  status,
});

// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: webhookEndpoints,
  initial: "enabled",
  terminal: ["deleted"],
  report,
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action   from                       to          event
    disable:  [["enabled"],              "disabled", "webhook_endpoint.disabled"],
    enable:   [["disabled"],             "enabled",  "webhook_endpoint.enabled"],
    delete:   [["enabled", "disabled"],  "deleted",  "webhook_endpoint.deleted"],
  },
});

/** Deliveries emit no events: these would be delivered in turn. */
// biome-ignore format: a table should look like one
export const deliveryMachine = lifecycle({
  table: webhookDeliveries,
  initial: "pending",
  terminal: ["succeeded"],
  report: ({ endpointId }: DeliveryRow) => report({ id: endpointId, status: "enabled" }),
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action   from                                          to           event
    retry:    [["pending"],                                 "pending",   null],
    succeed:  [["pending", "failed", "exhausted", "cancelled"], "succeeded", null], // the settled ones: by hand
    fail:     [["pending"],                                 "failed",    null],
    exhaust:  [["pending"],                                 "exhausted", null],
    cancel:   [["pending"],                                 "cancelled", null],
  },
});
