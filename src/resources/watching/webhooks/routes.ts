import { Elysia } from "elysia";
import type { Ctx, Principal } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { auditReveal } from "../../../http/audit.ts";
import { area } from "../../../http/auth.ts";
import { readBody } from "../../../http/body/json.ts";
import { type Creation, creates, createsLater } from "../../../http/idempotency.ts";
import { bodyLimits } from "../../../http/limits/body_limits.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { AppError } from "../../../lib/errors.ts";
import { Deleted } from "../../../lib/schema.ts";
import { allows } from "../../../lib/scopes.ts";
import { isoTime } from "../../../lib/time.ts";
import * as deliveries from "./deliveries.ts";
import { recover } from "./delivery/recover.ts";
import * as schema from "./schema.ts";
import * as endpoints from "./service.ts";

const TAGS = ["Webhooks"];
const PREFIX = "/v1/webhooks";

export const routes = (ctx: Ctx) => new Elysia().use(managing(ctx)).use(signing(ctx)).use(delivering(ctx));

const managing = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "account");
  return new Elysia({ prefix: PREFIX, tags: TAGS })
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) =>
        createsLater(ctx, { request, principal, body, set }, (once) =>
          endpoints.create(ctx, principal.workspaceId, body, once),
        ),
      {
        ...takes(schema.CreateWebhookEndpoint),
        detail: describe("Create a webhook endpoint; the answer holds the full secret", {
          201: schema.CreatedWebhookEndpoint,
        }),
      },
    )
    .get("", ({ principal, query }) => endpoints.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List webhook endpoints", { 200: listOf(schema.WebhookEndpoint, "WebhookEndpointList") }),
    })
    .get(
      "/:id",
      ({ principal, params }) => endpoints.show(ctx, endpoints.mustGet(ctx, principal.workspaceId, params.id)),
      { detail: describe("Get a webhook endpoint", { 200: schema.WebhookEndpoint }) },
    )
    .patch(
      "/:id",
      async ({ principal, params, body }) =>
        endpoints.show(ctx, await endpoints.update(ctx, principal.workspaceId, params.id, body)),
      {
        ...takes(schema.UpdateWebhookEndpoint),
        detail: describe("Change, enable or disable a webhook endpoint", { 200: schema.WebhookEndpoint }),
      },
    )
    .delete(
      "/:id",
      ({ principal, params }) => {
        endpoints.remove(ctx, principal.workspaceId, params.id);
        return { id: params.id, object: "webhook_endpoint", deleted: true };
      },
      {
        detail: describe("Delete a webhook endpoint; pending deliveries are cancelled", {
          200: Deleted("webhook_endpoint"),
        }),
      },
    );
};

/** A key that can only read does not get the secret. */
function requireWrites({ scopes }: Principal) {
  if (!allows(scopes, "account", false))
    throw new AppError(
      "missing_scope",
      `This key has the scopes ${scopes.join(", ")} and cannot reveal secrets. Use a key with the scope *`,
    );
}

const signing = (ctx: Ctx) => {
  const { authed } = area(ctx, "account");
  return new Elysia({ prefix: PREFIX, tags: TAGS })
    .use(authed)
    .get(
      "/:id/secret",
      async ({ request, principal, params, set }) => {
        requireWrites(principal);
        const revealed = endpoints.revealSecret(ctx, principal.workspaceId, params.id);
        await auditReveal(ctx, request, principal);
        set.headers["cache-control"] = "no-store";
        return revealed;
      },
      { detail: describe("Reveal the secret that deliveries are signed with", { 200: schema.WebhookSecret }) },
    )
    .post(
      "/:id/rotate_secret",
      async ({ request, principal, params }) => {
        const none = { grace_period_seconds: schema.GRACE_SECONDS };
        const body = await readBody(ctx, request, bodyLimits(ctx, "small"), schema.RotateSecret, none);
        const { workspaceId } = principal;
        return endpoints.show(ctx, endpoints.rotateSecret(ctx, workspaceId, params.id, body.grace_period_seconds));
      },
      {
        parse: "none",
        detail: describe(
          "Rotate the secret; the old one stays valid for the grace period",
          { 200: schema.WebhookEndpoint },
          { accepts: { "application/json": schema.RotateSecret } },
        ),
      },
    );
};

const delivering = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "account");
  const accepts = (creation: Creation, make: () => object) =>
    creates(ctx, creation, () => {
      creation.set.status = 202;
      return make();
    });
  return new Elysia({ prefix: PREFIX, tags: TAGS })
    .use(authed)
    .post(
      "/:id/test",
      ({ request, principal, params, set }) =>
        accepts({ request, principal, set }, () =>
          deliveries.show(ctx, deliveries.sendTest(ctx, principal.workspaceId, params.id)),
        ),
      { detail: describe("Send a webhook.test event to this endpoint only", { 202: schema.Delivery }) },
    )
    .get(
      "/:id/deliveries",
      ({ principal, params, query }) => deliveries.list(ctx, principal.workspaceId, params.id, query),
      {
        ...asks(schema.DeliveryQuery),
        detail: describe(
          "List the last 50 deliveries, newest first",
          { 200: schema.DeliveryList },
          {
            description:
              "With a filter a page may be short, or empty, while has_more is true. Pass next_after as after to go on.",
          },
        ),
      },
    )
    .get(
      "/:id/deliveries/:delivery",
      ({ principal, params, set }) => {
        set.headers["cache-control"] = "no-store";
        return deliveries.showWithRequest(ctx, principal.workspaceId, {
          endpointId: params.id,
          deliveryId: params.delivery,
          isSigned: allows(principal.scopes, "account", false),
        });
      },
      { detail: describe("Get a delivery with the request that is sent", { 200: schema.DeliveryWithRequest }) },
    )
    .post(
      "/:id/deliveries/:delivery/resend",
      ({ request, principal, params, set }) =>
        accepts({ request, principal, set }, () =>
          deliveries.show(ctx, deliveries.resend(ctx, principal.workspaceId, params.id, params.delivery)),
        ),
      { detail: describe("Send a delivery again, once", { 202: schema.Delivery }) },
    )
    .post(
      "/:id/recover",
      async ({ principal, params, body, set }) => {
        const since = Math.min(Math.max(0, Date.parse(body.since)), ctx.clock.now()); // no event is later
        const count = await recover(ctx, principal.workspaceId, params.id, since);
        set.status = 202;
        return { object: "webhook_recovery", endpoint_id: params.id, since: isoTime(since), count };
      },
      {
        ...takes(schema.Recover),
        detail: describe("Send again the events that were not delivered", { 202: schema.Recovery }),
      },
    );
};
