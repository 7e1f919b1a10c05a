import type { WebhookEndpoint } from "../../../resources/webhooks/schema.ts";
import { command, EXIT, type Group, JSON_FLAG, SERVER_FLAGS } from "../../args.ts";
import { connect } from "../../connect.ts";
import { listAll } from "../../lists.ts";
import { note, print, printJson, printTable } from "../../output.ts";
import { listen } from "../../webhooks/listen.ts";
import { verifyDelivery } from "../../webhooks/verify.ts";

const FLAGS = { ...SERVER_FLAGS, json: JSON_FLAG } as const;

const create = command({
  summary: "Create an endpoint and print its secret",
  takes: ["url"],
  flags: {
    ...FLAGS,
    event: { type: "string", value: "TYPE", multiple: true, doc: "Only these (default: all); may be given again" },
    description: { type: "string", value: "TEXT", doc: "For your own use" },
  },
  examples: [
    "verk webhooks create https://hooks.example.com/verk",
    "verk webhooks create https://hooks.example.com/verk --event job.completed --event job.failed --json",
  ],
  exits: { 1: "failed: the address is not allowed, or the workspace has too many" },
  async run({ json, event, description, ...where }, url = "") {
    const { client } = await connect(where);
    const wish = { url, event_types: event, ...(description === undefined ? {} : { description }) };
    const { body } = await client.call<WebhookEndpoint>("POST", "/v1/webhooks", wish);
    if (json) printJson(body);
    else {
      print(body.secret);
      note(`${body.id} gets ${body.event_types.join(", ") || "all events"}. Deliveries are signed with this secret.`);
    }
    return EXIT.ok;
  },
});

const list = command({
  summary: "List the endpoints, newest first",
  flags: FLAGS,
  examples: ["verk webhooks list", "verk webhooks list --json"],
  async run({ json, ...where }) {
    const { client } = await connect(where);
    const found = await listAll<WebhookEndpoint>(client, "/v1/webhooks", ({ id }) => id);
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
        "No endpoints: make one with `verk webhooks create`.",
      );
    }
    return EXIT.ok;
  },
});

export const webhooks: Group = {
  summary: "Webhook endpoints of a running server, and aids for who receives",
  subcommands: { create, list, listen, verify: verifyDelivery },
};
