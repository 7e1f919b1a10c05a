import { UsageError } from "../../../lib/errors.ts";
import { parseDuration } from "../../../lib/time.ts";
import type { Monitor, MonitorChange, MonitorTest } from "../../../resources/watching/monitors/schema.ts";
import { command, EXIT, type Group, momentOf, wholeOf } from "../../args.ts";
import type { Client } from "../../client.ts";
import { connect } from "../../connect.ts";
import { mustFind as findDeployment } from "../../deployments.ts";
import { wholeId } from "../../lists.ts";
import { printList, printResult } from "../../output.ts";
import { COMMON_FLAGS, createCommand, itemsOf, listCommand, removeCommand } from "../../resource_commands.ts";

const PATH = "/v1/monitors";

/** Finds a monitor by name, by id, or by the beginning of an id. */
async function mustFind(client: Client, target: string): Promise<Monitor> {
  const monitors = await itemsOf<Monitor>(client, PATH);
  const id = await wholeId(target, async () => monitors);
  const monitor = monitors.find((each) => each.id === id || each.name === target);
  if (monitor) return monitor;
  throw new UsageError(`There is no monitor ${JSON.stringify(target)}. \`verk monitors list\` shows them.`, 1);
}

const numberOf = (flag: string, text: string | undefined): number | undefined => {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!Number.isFinite(value)) throw new UsageError(`--${flag}: expected a number, not ${JSON.stringify(text)}`);
  return value;
};

const secondsOf = (flag: string, text: string | undefined): number | undefined => {
  if (text === undefined) return undefined;
  const ms = parseDuration(text);
  if (ms === undefined)
    throw new UsageError(`--${flag}: expected a duration such as 5m or 1h, not ${JSON.stringify(text)}`);
  return ms / 1000;
};

const shown = (value: number | null, unit: string) =>
  value === null ? "-" : `${Number(value.toPrecision(6))} ${unit}`;

const list = listCommand({
  summary: "List the monitors, newest first",
  examples: ["verk monitors list", "verk monitors list --severity alert --json"],
  path: PATH,
  flags: {
    severity: {
      type: "string",
      value: "SEVERITY",
      choices: ["ok", "warning", "alert", "no_data"],
      doc: "Only this severity: ok, warning, alert or no_data",
    },
  },
  query: ({ severity }) => ({ severity }),
  columns: {
    ID: ({ id }: Monitor) => id,
    NAME: ({ name }) => name,
    SEVERITY: ({ severity, muted_until }) => (muted_until === null ? severity : `${severity} (muted)`),
    METRIC: ({ metric }) => metric,
    VALUE: ({ value, unit }) => shown(value, unit),
    EVALUATED: ({ evaluated_at }) => evaluated_at ?? "never",
  },
  empty: "No monitors. Create one with `verk monitors create NAME --metric METRIC`.",
  hasShortIds: true,
});

const create = createCommand({
  summary: "Create a monitor: thresholds over a metric",
  takes: "name",
  path: PATH,
  flags: {
    metric: { type: "string", value: "METRIC", doc: "For example latency_p95, error_rate, reward or disk_free" },
    alert: { type: "string", value: "NUMBER", doc: "Threshold of an alert" },
    warning: { type: "string", value: "NUMBER", doc: "Threshold of a warning" },
    "alert-recovery": { type: "string", value: "NUMBER", doc: "An alert ends beyond this value (default: --alert)" },
    "warning-recovery": { type: "string", value: "NUMBER", doc: "A warning ends beyond this value" },
    window: { type: "string", value: "DURATION", doc: "Time that is measured (default: 5m)" },
    reference: {
      type: "string",
      value: "DURATION",
      doc: "Time before it that drift is measured against (default: 1d)",
    },
    deployment: { type: "string", value: "NAME", doc: "Measure this deployment, by name or id (default: all)" },
    job: { type: "string", value: "ID", doc: "Measure this training job" },
    endpoint: { type: "string", value: "ID", doc: "Measure this webhook endpoint (default: all)" },
    device: { type: "string", value: "ID", doc: "Measure this device (default: the highest value)" },
    score: { type: "string", value: "NAME", doc: "Measure the score of this name" },
    evaluator: { type: "string", value: "NAME", doc: "Make the scores: send captured requests through this evaluator" },
    percent: { type: "string", value: "NUMBER", doc: "Share of the requests for --evaluator (default: 100)" },
    evaluations: { type: "string", value: "N", doc: "Evaluations in a row before the severity rises (default: 1)" },
    "recovery-evaluations": { type: "string", value: "N", doc: "Evaluations in a row before it falls (default: 1)" },
    "no-data": {
      type: "string",
      value: "SEVERITY",
      choices: ["ok", "no_data", "alert"],
      doc: "Severity without data: ok, no_data or alert",
    },
  },
  examples: [
    "verk monitors create slow --metric latency_p95 --deployment demo --alert 2000 --alert-recovery 1500",
    "verk monitors create disk --metric disk_free --warning 50e9 --alert 10e9",
  ],
  fields: {
    "thresholds/alert": "--alert",
    "thresholds/warning": "--warning",
    "thresholds/alert_recovery": "--alert-recovery",
    "thresholds/warning_recovery": "--warning-recovery",
    deployment_id: "--deployment",
    job_id: "--job",
    endpoint_id: "--endpoint",
    window_seconds: "--window",
    reference_window_seconds: "--reference",
    recovery_evaluations: "--recovery-evaluations",
    no_data: "--no-data",
    online_evaluation: "--evaluator",
    "online_evaluation/evaluator": "--evaluator",
    "online_evaluation/sample_percent": "--percent",
  },
  body: async (flags, name, server) => ({
    name,
    metric: flags.metric,
    thresholds: {
      alert: numberOf("alert", flags.alert),
      warning: numberOf("warning", flags.warning),
      alert_recovery: numberOf("alert-recovery", flags["alert-recovery"]),
      warning_recovery: numberOf("warning-recovery", flags["warning-recovery"]),
    },
    window_seconds: secondsOf("window", flags.window),
    reference_window_seconds: secondsOf("reference", flags.reference),
    deployment_id: await deploymentId(flags.deployment, server),
    job_id: flags.job,
    endpoint_id: flags.endpoint,
    device: flags.device,
    score: flags.score,
    evaluations: wholeOf("evaluations", flags.evaluations),
    recovery_evaluations: wholeOf("recovery-evaluations", flags["recovery-evaluations"]),
    no_data: flags["no-data"],
    online_evaluation: flags.evaluator && {
      evaluator: flags.evaluator,
      sample_percent: numberOf("percent", flags.percent) ?? 100,
    },
  }),
  result: ({ id }: Monitor) => id,
});

const deploymentId = async (name: string | undefined, server: () => Promise<Client>) =>
  name && (await findDeployment(await server(), name)).id;

const history = command({
  summary: "List the changes of a monitor's severity, newest first",
  takes: ["monitor"],
  flags: COMMON_FLAGS,
  examples: ["verk monitors history slow"],
  async run({ json, ...where }, target = "") {
    const { client } = await connect(where);
    const { id, unit } = await mustFind(client, target);
    printList(json, await itemsOf<MonitorChange>(client, `${PATH}/${id}/history`), {
      columns: {
        TIME: ({ created_at }) => created_at,
        BEFORE: ({ previous_severity }) => previous_severity,
        SEVERITY: ({ severity }) => severity,
        VALUE: ({ value }) => shown(value, unit),
        EVENT: ({ event, muted }) => event ?? (muted ? "muted" : "-"),
      },
      empty: "Its severity has not changed.",
    });
    return EXIT.ok;
  },
});

const mute = command({
  summary: "Mute a monitor for a time: it emits no events",
  takes: ["monitor"],
  flags: {
    ...COMMON_FLAGS,
    for: { type: "string", value: "DURATION", doc: "Length, such as 90m or 12h, or an end date (default: 1h)" },
    off: { type: "boolean", doc: "Unmute it" },
  },
  examples: ["verk monitors mute slow --for 2h", "verk monitors mute slow --off"],
  async run({ json, for: span = "1h", off, ...where }, target = "") {
    const { client } = await connect(where);
    const { id, name } = await mustFind(client, target);
    const until = off ? null : momentOf("for", span, Date.now());
    const { body } = await client.call<Monitor>("POST", `${PATH}/${id}/mute`, { until });
    const end = body.muted_until;
    printResult(json, body, { remark: end === null ? `${name} is not muted.` : `${name} is muted until ${end}.` });
    return EXIT.ok;
  },
});

const test = command({
  summary: "Evaluate a monitor now without changing it",
  takes: ["monitor"],
  flags: COMMON_FLAGS,
  examples: ["verk monitors test slow"],
  async run({ json, ...where }, target = "") {
    const { client } = await connect(where);
    const { id, name, unit } = await mustFind(client, target);
    const { body } = await client.call<MonitorTest>("POST", `${PATH}/${id}/test`);
    const { value, level, current_severity: now, severity } = body;
    const result = `${name}: ${shown(value, unit)}, which is ${level}. It is ${now} now and would be ${severity}.`;
    printResult(json, body, { result });
    return EXIT.ok;
  },
});

const remove = removeCommand({
  summary: "Delete a monitor and its history",
  examples: ["verk monitors delete slow"],
  takes: "monitor",
  path: PATH,
  find: mustFind,
  says: ({ id, name }) => `${name} (${id}) is deleted.`,
});

export const monitors: Group = {
  summary: "Monitors: thresholds over metrics, with events for webhooks",
  subcommands: { create, list, history, test, mute, delete: remove },
};
