import { UsageError } from "../../../lib/errors.ts";
import type { WebhookEndpoint } from "../../../resources/watching/webhooks/schema.ts";
import type { Group } from "../../args.ts";
import type { Client } from "../../client.ts";
import { createCommand, itemsOf, listCommand, removeCommand } from "../../resource_commands.ts";
import { listen } from "../../webhooks/listen.ts";
import { verifyDelivery } from "../../webhooks/verify.ts";

const create = createCommand({
  summary: "Create a webhook endpoint and print its signing secret",
  takes: "url",
  path: "/v1/webhooks",
  flags: {
    event: {
      type: "string",
      value: "TYPE",
      multiple: true,
      doc: "Only events of this type (default: all); repeatable",
    },
    description: { type: "string", value: "TEXT", doc: "Description for your own use" },
  },
  examples: [
    "verk webhooks create https://hooks.example.com/verk",
    "verk webhooks create https://hooks.example.com/verk --event job.completed --event job.failed --json",
  ],
  fields: { event_types: "--event" },
  exits: { 1: "failed: the URL is not allowed, or the workspace has too many endpoints" },
  body: ({ event, description }, url) => ({
    url,
    event_types: event,
    ...(description === undefined ? {} : { description }),
  }),
  result: ({ secret }: WebhookEndpoint) => secret,
  says: ({ id, event_types: types }) =>
    `${id} receives ${types.join(", ") || "all events"}. Deliveries are signed with this secret.`,
});

const list = listCommand({
  summary: "List the webhook endpoints, newest first",
  examples: ["verk webhooks list", "verk webhooks list --json"],
  path: "/v1/webhooks",
  columns: {
    ID: ({ id }: WebhookEndpoint) => id,
    URL: ({ url }) => url,
    STATUS: (each) => (each.enabled ? "enabled" : `disabled (${each.disabled_reason?.replaceAll("_", " ")})`),
    FAILURES: ({ consecutive_failures }) => String(consecutive_failures),
    EVENTS: ({ event_types }) => event_types.join(",") || "all",
  },
  empty: "No webhook endpoints. Create one with `verk webhooks create URL`.",
});

const remove = removeCommand({
  summary: "Delete a webhook endpoint; its pending deliveries are cancelled",
  examples: ["verk webhooks delete whe_…", "verk webhooks delete https://hooks.example.com/verk"],
  exits: { 1: "failed: there is no such endpoint" },
  takes: "endpoint",
  path: "/v1/webhooks",
  find: mustFind,
  says: ({ id, url }) => `${url} (${id}) is deleted.`,
});

/** Finds an endpoint by its id, the beginning of it, or its URL if only one endpoint has that. */
async function mustFind(client: Client, target: string): Promise<WebhookEndpoint> {
  const endpoints = await itemsOf<WebhookEndpoint>(client, "/v1/webhooks");
  const named = endpoints.filter(({ id, url }) => id === target || url === target);
  const [only, another] = named.length > 0 ? named : endpoints.filter(({ id }) => isShortOf(target, id));
  if (another) throw new UsageError(`${target} is several endpoints. Name one by its id: \`verk webhooks list\`.`, 1);
  if (only) return only;
  throw new UsageError(`There is no webhook endpoint ${JSON.stringify(target)}. \`verk webhooks list\` shows them.`, 1);
}

const isShortOf = (target: string, id: string) => /^[a-z]+_[0-9a-z]{8,}$/.test(target) && id.startsWith(target);

export const webhooks: Group = {
  summary: "Manage webhooks; test a receiver",
  subcommands: { create, list, delete: remove, listen, verify: verifyDelivery },
};
