import { UsageError } from "../../../lib/errors.ts";
import type { WebhookEndpoint } from "../../../resources/watching/webhooks/schema.ts";
import { command, EXIT, type Group, JSON_FLAG, SERVER_FLAGS } from "../../args.ts";
import type { Client } from "../../client.ts";
import { connect } from "../../connect.ts";
import { listAll } from "../../lists.ts";
import { note, print, printJson, printTable } from "../../output.ts";
import { listen } from "../../webhooks/listen.ts";
import { verifyDelivery } from "../../webhooks/verify.ts";

const FLAGS = { ...SERVER_FLAGS, json: JSON_FLAG } as const;

const create = command({
  summary: "Create a webhook endpoint and print its signing secret",
  takes: ["url"],
  flags: {
    ...FLAGS,
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

const list = command({
  summary: "List the webhook endpoints, newest first",
  flags: FLAGS,
  examples: ["verk webhooks list", "verk webhooks list --json"],
  async run({ json, ...where }) {
    const { client } = await connect(where);
    const found = await all(client);
    if (json) printJson({ object: "list", data: found, has_more: false });
    else {
      const rows = found.map((each) => [
        each.id,
        each.url,
        each.enabled ? "enabled" : `disabled (${each.disabled_reason?.replaceAll("_", " ")})`,
        String(each.consecutive_failures),
        each.event_types.join(",") || "all",
      ]);
      printTable(
        ["ID", "URL", "STATUS", "FAILURES", "EVENTS"],
        rows,
        "No webhook endpoints. Create one with `verk webhooks create URL`.",
      );
    }
    return EXIT.ok;
  },
});

const remove = command({
  summary: "Delete a webhook endpoint; its pending deliveries are cancelled",
  takes: ["endpoint"],
  flags: FLAGS,
  examples: ["verk webhooks delete whe_…", "verk webhooks delete https://hooks.example.com/verk"],
  exits: { 1: "failed: there is no such endpoint" },
  async run({ json, ...where }, target = "") {
    const { client } = await connect(where);
    const { id, url } = await mustFind(client, target);
    const { body } = await client.call("DELETE", `/v1/webhooks/${id}`);
    if (json) printJson(body);
    else note(`${url} (${id}) is deleted.`);
    return EXIT.ok;
  },
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
