import { z } from "zod";
import { PageQuery } from "../../../http/answer/pagination.ts";
import { DateTime, isoOrNull, Label, later, Metadata, Notice, numberText } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { DELIVERY_STATUSES, nextAttemptMs } from "./delivery/verdict.ts";
import { PUBLISHED } from "./kinds.ts";
import { type AttemptRow, type DeliveryRow, DISABLED_REASONS, type EndpointRow, TRIGGERS } from "./table.ts";

export const GRACE_SECONDS = 86_400;
const MOST_GRACE_SECONDS = 30 * 86_400;

const MOST_TYPES = 200;

const Url = later(() =>
  z
    .string()
    .min(1)
    .max(2048)
    .describe(
      "An https address that is publicly routable. It is checked again at every attempt. Redirects are not followed",
    ),
);
const EventTypes = later(() =>
  z
    .array(z.enum(PUBLISHED))
    .max(MOST_TYPES)
    .transform((types) => [...new Set(types)])
    .describe("Event types to deliver. Empty: all"),
);
/** Null, which earlier versions showed, means the same as an empty text. */
const Description = later(() =>
  z
    .union([Label(500), z.literal(""), z.null()])
    .transform((text) => text ?? "")
    .describe("Up to 500 characters"),
);

export const CreateWebhookEndpoint = later(() =>
  z
    .object({
      url: Url,
      description: Description.default(""),
      event_types: EventTypes.default([]),
      metadata: Metadata.default({}),
    })
    .meta({ id: "CreateWebhookEndpoint" }),
);
export type CreateWebhookEndpoint = z.infer<typeof CreateWebhookEndpoint>;

export const UpdateWebhookEndpoint = later(() =>
  z
    .object({
      url: Url,
      description: Description,
      event_types: EventTypes,
      enabled: z
        .boolean()
        .describe("false holds pending deliveries; true resumes them and resets the count of failures"),
      metadata: Metadata,
    })
    .partial()
    .meta({ id: "UpdateWebhookEndpoint" }),
);
export type UpdateWebhookEndpoint = z.infer<typeof UpdateWebhookEndpoint>;

export const WebhookEndpoint = later(() =>
  z
    .object({
      object: z.literal("webhook_endpoint"),
      id: z.string(),
      url: z.string(),
      secret: z.string().describe("Shown in full in the answer to the creation, masked everywhere else"),
      event_types: z.array(z.string()).describe("Event types to deliver. Empty: all"),
      enabled: z.boolean(),
      consecutive_failures: z.int(),
      description: z.string().describe("Empty if none was given"),
      disabled_at: DateTime.nullable().describe("When failures disabled the endpoint"),
      disabled_reason: z.enum(DISABLED_REASONS).nullable(),
      metadata: z.record(z.string(), z.string()),
      created_at: DateTime,
      updated_at: DateTime,
    })
    .meta({ id: "WebhookEndpoint" }),
);
export type WebhookEndpoint = z.infer<typeof WebhookEndpoint>;

export const CreatedWebhookEndpoint = later(() =>
  WebhookEndpoint.unwrap().extend({ notice: Notice }).meta({ id: "CreatedWebhookEndpoint" }),
);

export const WebhookSecret = later(() =>
  z.object({ object: z.literal("webhook_secret"), id: z.string(), secret: z.string() }).meta({ id: "WebhookSecret" }),
);

export const RotateSecret = later(() =>
  z
    .object({
      grace_period_seconds: z
        .int()
        .min(0)
        .max(MOST_GRACE_SECONDS)
        .default(GRACE_SECONDS)
        .describe("Deliveries are signed with the old secret too for so long"),
    })
    .meta({ id: "RotateSecret" }),
);
export type RotateSecret = z.infer<typeof RotateSecret>;

export const Recover = later(() =>
  z
    .object({
      since: z.iso
        .datetime({ offset: true })
        .describe("Events created since then that were not delivered are sent again"),
    })
    .meta({ id: "RecoverDeliveries" }),
);
export type Recover = z.infer<typeof Recover>;

export const Recovery = later(() =>
  z
    .object({
      object: z.literal("webhook_recovery"),
      endpoint_id: z.string(),
      since: DateTime,
      count: z.int().describe("Deliveries that are sent again"),
    })
    .meta({ id: "WebhookRecovery" }),
);

const DeliveryAttempt = later(() =>
  z
    .object({
      number: z.int(),
      attempted_at: DateTime,
      trigger: z.enum(TRIGGERS),
      duration_ms: z.int(),
      response_code: z.int().nullable(),
      response_body: z.string().nullable().describe("The first KiB"),
      error_code: z.string().nullable(),
      error_message: z.string().nullable(),
    })
    .meta({ id: "WebhookAttempt" }),
);

export const Delivery = later(() =>
  z
    .object({
      object: z.literal("webhook_delivery"),
      id: z.string(),
      endpoint_id: z.string(),
      event_id: z.string().describe("The header webhook-id of the delivery"),
      event_type: z.string(),
      status: z.enum(DELIVERY_STATUSES),
      attempt_count: z.int(),
      next_attempt_at: DateTime.nullable(),
      last_response_code: z.int().nullable(),
      last_error: z.string().nullable(),
      exhausted: z.boolean().describe("The event was not acknowledged within 72 hours"),
      created_at: DateTime,
      expires_at: DateTime,
      attempts: z.array(DeliveryAttempt).describe("The newest fifty, oldest first"),
    })
    .meta({ id: "WebhookDelivery" }),
);
export type Delivery = z.infer<typeof Delivery>;

const LISTED = 50;
const LONGEST_TYPE = 100;

export const DeliveryQuery = later(() =>
  PageQuery.extend({
    limit: numberText(z.int().min(1).max(100)).default(LISTED).describe("How many deliveries at most"),
    after: z.string().optional().describe("next_after of the previous page, or the id of its last item"),
    status: z.enum(DELIVERY_STATUSES).optional().describe("Only deliveries in this state"),
    event_type: z.string().max(LONGEST_TYPE).optional().describe("Only deliveries of this event type"),
  }),
);
export type DeliveryQuery = z.infer<typeof DeliveryQuery>;

export const DeliveryList = later(() =>
  z
    .object({
      object: z.literal("list"),
      data: z.array(Delivery),
      has_more: z.boolean(),
      next_after: z.string().nullable().describe("The value of after for the next page. Null if there is none"),
    })
    .meta({ id: "WebhookDeliveryList" }),
);

export const DeliveryRequest = later(() =>
  z
    .object({
      url: z.string(),
      headers: z
        .record(z.string(), z.string())
        .describe(
          "Those of the newest attempt. The signature is made again with the secrets of that time that are still known; a key that only reads gets it masked",
        ),
      body: z.string().nullable().describe("The signed text, the same at every attempt. Null if it was deleted"),
    })
    .meta({ id: "WebhookDeliveryRequest" }),
);
export type DeliveryRequest = z.infer<typeof DeliveryRequest>;

export const DeliveryWithRequest = later(() =>
  Delivery.unwrap().extend({ request: DeliveryRequest }).meta({ id: "WebhookDeliveryWithRequest" }),
);
export type DeliveryWithRequest = z.infer<typeof DeliveryWithRequest>;

export const present = (row: EndpointRow, secret: string): WebhookEndpoint => ({
  object: "webhook_endpoint",
  id: row.id,
  url: row.url,
  secret,
  event_types: row.eventTypes,
  enabled: row.status === "enabled",
  consecutive_failures: row.consecutiveFailures,
  description: row.description ?? "",
  disabled_at: isoOrNull(row.disabledAt),
  disabled_reason: row.disabledReason,
  metadata: row.metadata,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});

export const presentDelivery = (row: DeliveryRow, attempts: readonly AttemptRow[]): Delivery => ({
  object: "webhook_delivery",
  id: row.id,
  endpoint_id: row.endpointId,
  event_id: row.eventId,
  event_type: row.eventType,
  status: row.status,
  attempt_count: row.attemptCount,
  next_attempt_at: isoOrNull(
    row.resendAt ?? nextAttemptMs({ ...row, createdAtMs: row.eventCreatedAt, dueAtMs: row.dueAt }),
  ),
  last_response_code: row.lastResponseCode,
  last_error: row.lastError,
  exhausted: row.status === "exhausted",
  created_at: isoTime(row.createdAt),
  expires_at: isoTime(row.expiresAt),
  attempts: attempts.map((each) => ({
    number: each.number,
    attempted_at: isoTime(each.attemptedAt),
    trigger: each.trigger,
    duration_ms: each.durationMs,
    response_code: each.responseCode,
    response_body: each.responseBody,
    error_code: each.errorCode,
    error_message: each.errorMessage,
  })),
});
