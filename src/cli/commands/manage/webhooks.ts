import { UsageError } from "../../../lib/errors.ts";
import type { WebhookEndpoint } from "../../../resources/watching/webhooks/schema.ts";
import { command, EXIT, type Group } from "../../args.ts";
import type { Client } from "../../client.ts";
import { connect } from "../../connect.ts";
import { listAll } from "../../lists.ts";
import { note, print, printJson } from "../../output.ts";
import { COMMON_FLAGS, listCommand, removeCommand } from "../../resource_commands.ts";
import { listen } from "../../webhooks/listen.ts";
import { verifyDelivery } from "../../webhooks/verify.ts";

const create = command({
  summary: "Create a webhook endpoint and print its signing secret",
  takes: ["url"],
  flags: {
    ...COMMON_FLAGS,
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
  async run({ json, event, description, ...where }, url = "") {
    const { client } = await connect(where);
    const fields = { url, event_types: event, ...(description === undefined ? {} : { description }) };
    const { body } = await client.call<WebhookEndpoint>("POST", "/v1/webhooks", fields);
    if (json) printJson(body);
    else {
      print(body.secret);
      note(
        `${body.id} receives ${body.event_types.join(", ") || "all events"}. Deliveries are signed with this secret.`,
      );
    }
    return EXIT.ok;
  },
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

const all = (client: Client) => listAll<WebhookEndpoint>(client, "/v1/webhooks", ({ id }) => id);

/** Finds an endpoint by its id, the beginning of it, or its URL if only one endpoint has that. */
async function mustFind(client: Client, target: string): Promise<WebhookEndpoint> {
  const endpoints = await all(client);
  const found = endpoints.filter(({ id, url }) => id === target || url === target);
  const [only, another] = found.length > 0 ? found : endpoints.filter(({ id }) => isShortOf(target, id));
  if (another) throw new UsageError(`${target} is several endpoints. Name one by its id: \`verk webhooks list\`.`, 1);
  if (only) return only;
  throw new UsageError(`There is no webhook endpoint ${JSON.stringify(target)}. \`verk webhooks list\` shows them.`, 1);
}

const isShortOf = (target: string, id: string) => /^[a-z]+_[0-9a-z]{8,}$/.test(target) && id.startsWith(target);

export const webhooks: Group = {
  summary: "Manage webhooks; test a receiver",
  subcommands: { create, list, delete: remove, listen, verify: verifyDelivery },
};
