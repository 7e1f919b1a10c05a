import { UsageError } from "../../../lib/errors.ts";
import { formatUsd } from "../../../lib/money.ts";
import { command, EXIT, type Group } from "../../args.ts";
import { connect } from "../../connect.ts";
import { type Deployment, mustFind, stateOf } from "../../deployments.ts";
import { printResult } from "../../output.ts";
import { actionCommand, COMMON_FLAGS, listCommand, showCommand } from "../../resource_commands.ts";

const list = listCommand({
  summary: "List the deployments, newest first",
  examples: ["verk deployments list", "verk deployments list --status serving --json"],
  path: "/v1/deployments",
  flags: {
    status: {
      type: "string",
      value: "STATUS",
      choices: ["queued", "provisioning", "serving", "unhealthy", "stopped", "failed"],
      doc: "Only this status: queued, provisioning, serving, unhealthy, stopped or failed",
    },
  },
  query: ({ status }) => ({ status }),
  columns: {
    ID: ({ id }: Deployment) => id,
    NAME: ({ name }) => name,
    STATUS: stateOf,
    MODEL: ({ model }) => model,
    GPU: ({ gpu }) => `${gpu.count} × ${gpu.type}`,
    REQUESTS: ({ total_requests }) => String(total_requests),
    "LAST REQUEST": ({ last_request_at }) => last_request_at ?? "never",
  },
  empty: "No deployments. Create one with `verk deploy MODEL --name NAME`.",
  hasShortIds: true,
});

const show = showCommand({
  summary: "Show a deployment",
  examples: ["verk deployments show demo"],
  exits: { 1: "failed: there is no such deployment" },
  takes: "deployment",
  path: "/v1/deployments",
  find: mustFind,
  facts: (deployment, url) => factsOf(deployment, url),
});

const factsOf = (each: Deployment, url: string): [string, string][] => [
  ["id", each.id],
  ["name", each.name],
  ["status", stateOf(each)],
  ...(each.load.reason ? [["reason", each.load.reason] as [string, string]] : []),
  ...(each.last_error
    ? [[each.status === "failed" ? "error" : "last error", each.last_error] as [string, string]]
    : []),
  ["model", each.model],
  ...(each.next_model ? [["next model", nextOf(each.next_model)] as [string, string]] : []),
  ...(each.previous_model ? [["previous model", each.previous_model.model] as [string, string]] : []),
  ["endpoint", each.endpoint_url === null ? "none yet" : `${url}${each.endpoint_url}`],
  ["gpu", `${each.gpu.count} × ${each.gpu.type}`],
  [
    "replicas",
    `${each.replicas.ready} of ${each.replicas.desired} ready (${each.min_replicas} to ${each.max_replicas})`,
  ],
  ["requests", String(each.total_requests)],
  ["last request", each.last_request_at ?? "never"],
  [
    "cost",
    `${formatUsd(each.total_cost_usd)}${each.cost_per_hour_usd === null ? "" : `, ${formatUsd(each.cost_per_hour_usd)}/h`}`,
  ],
  ["created", each.created_at],
];

const nextOf = ({ model, load }: NonNullable<Deployment["next_model"]>) =>
  `${model}, ${load.reason ?? `${load.stage} ${Math.round(load.progress * 100)} %`}`;

const transition = (action: "stop" | "start", summary: string) =>
  actionCommand({
    summary,
    examples: [`verk deployments ${action} demo`],
    exits: { 1: "failed: there is no such deployment, or its status does not allow it" },
    takes: "deployment",
    path: "/v1/deployments",
    find: mustFind,
    action,
    says: ({ status }: { status: string }, { id, name }) => `${name} (${id}) is ${status}.`,
  });

const change = command({
  summary: "Switch a deployment to another model",
  takes: ["deployment"],
  flags: {
    ...COMMON_FLAGS,
    model: {
      type: "string",
      value: "MODEL",
      doc: "A training job id, a model of this server, or owner/name of the hub",
    },
    checkpoint: { type: "string", value: "ID", doc: "A checkpoint of the training job instead of its result" },
  },
  examples: ["verk deployments switch demo --model job_…"],
  exits: { 1: "failed: there is no such deployment or model, or the model cannot be served" },
  async run({ json, model, checkpoint, ...where }, target = "") {
    if (model === undefined) throw new UsageError("--model is missing: name the model that the deployment switches to");
    const { client } = await connect(where);
    const { id, name } = await mustFind(client, target);
    const { body } = await client.call<Deployment>("PATCH", `/v1/deployments/${id}`, { model, checkpoint });
    const remark = body.next_model
      ? `${name} (${id}) switches to ${model} once it is loaded.`
      : `${name} (${id}) has the model ${body.model}.`;
    printResult(json, body, { remark });
    return EXIT.ok;
  },
});

const remove = command({
  summary: "Delete a stopped or failed deployment, with its recorded requests and traces",
  takes: ["deployment"],
  flags: { ...COMMON_FLAGS, stop: { type: "boolean", doc: "Stop the deployment first if it is active" } },
  examples: ["verk deployments delete demo", "verk deployments delete demo --stop"],
  exits: { 1: "failed: there is no such deployment, or it is active" },
  async run({ json, stop, ...where }, target = "") {
    const { client } = await connect(where);
    const { id, name } = await mustFind(client, target);
    if (stop) await client.call("POST", `/v1/deployments/${id}/stop`);
    const { body } = await client.call("DELETE", `/v1/deployments/${id}`);
    printResult(json, body, { remark: `${name} (${id}) is deleted.` });
    return EXIT.ok;
  },
});

export const deployments: Group = {
  summary: "Manage the deployments of a running server",
  subcommands: {
    list,
    show,
    switch: change,
    stop: transition("stop", "Stop a deployment and free its memory"),
    start: transition("start", "Start a stopped or failed deployment"),
    delete: remove,
  },
};
