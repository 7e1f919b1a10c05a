import { UsageError } from "../../lib/errors.ts";
import { command, EXIT, SERVER_FLAGS } from "../args.ts";
import type { Client } from "../client.ts";
import { type Connection, connect } from "../connect.ts";
import { allDeployments, type Deployment, isOver, untilServing } from "../deployments.ts";
import { bodyOf, type FieldFlags, fieldsOf } from "../field_flags.ts";
import { INTERRUPTED } from "../interrupt.ts";
import { note } from "../output.ts";
import { optionsOf, partnerFor, questionOf, TALK_FLAGS, talkWith } from "./chat.ts";
import { mustNotBeFile, nameFrom, SETTING_FLAGS } from "./deploy.ts";
import { labelOf } from "./manage/keys.ts";

const PARKING_FLAGS = {
  "context-length": SETTING_FLAGS["context-length"],
  "idle-timeout": SETTING_FLAGS["idle-timeout"],
} as const satisfies FieldFlags<Partial<Deployment>>;

export const run = command({
  summary:
    "Serve a model and chat with it, in one command: downloads it from the hub if needed, deploys it, and leaves a deployment that is parked when idle",
  takes: ["model"],
  flags: {
    once: { type: "string", value: "TEXT", doc: "Ask this question, print the answer and exit" },
    name: { type: "string", value: "NAME", doc: "Name of the deployment (default: derived from the model)" },
    ...TALK_FLAGS,
    ...PARKING_FLAGS,
    ...SERVER_FLAGS,
  },
  examples: [
    "verk run verk-tiny",
    "verk run Qwen/Qwen2.5-0.5B-Instruct-GGUF",
    "verk run verk-tiny --once 'What is 7 + 5?'",
  ],
  fields: fieldsOf(PARKING_FLAGS),
  exits: {
    1: "failed: no server runs, the model could not be served, or it did not answer",
    [INTERRUPTED]: "interrupted: the deployment continues on the server",
  },
  async run({ once, ...flags }, model = "") {
    mustNotBeFile(model);
    const options = optionsOf(flags);
    const name = labelOf("--name", flags.name ?? nameFrom(model));
    const connection = await connect(flags);
    const question = await questionOf("--once", once);
    const settings = bodyOf(PARKING_FLAGS, flags);
    const deployment = await deploymentOf(connection.client, { model, name, settings });
    const serving = await servingOf(connection, deployment);
    if (!serving) return INTERRUPTED;
    if (isOver(serving)) return EXIT.failed;
    const code = await talkWith(connection.client, partnerFor(serving), { ...options, question });
    if (question === undefined) note(endingOf(serving));
    return code;
  },
});

type Request = { model: string; name: string; settings: object };

/** The deployment of the model, or the one that the word names. A stopped one starts again. Without one, a new one. */
async function deploymentOf(client: Client, { model, name, settings }: Request): Promise<Deployment> {
  const all = await allDeployments(client);
  const active = all.filter((each) => !isOver(each));
  const named = active.find((each) => each.name === name) ?? active.find((each) => each.name === model);
  if (named && named.model !== model && named.name !== model)
    throw new UsageError(
      `The deployment ${name} serves ${named.model}, not ${model}. Chat with it by \`verk chat ${name}\`, or choose another name with --name.`,
      EXIT.failed,
    );
  if (named) return named;
  const stopped = all.find((each) => each.status === "stopped" && each.name === name && each.model === model);
  if (stopped) {
    await client.call("POST", `/v1/deployments/${stopped.id}/start`);
    return { ...stopped, status: "queued" };
  }
  const body = { model, name, min_replicas: 0, ...settings };
  return (await client.call<Deployment>("POST", "/v1/deployments", body)).body;
}

/** A parked deployment wakes with the first question, and the chat shows its progress. */
async function servingOf(connection: Connection, deployment: Deployment): Promise<Deployment | undefined> {
  return deployment.parked || deployment.status === "serving" ? deployment : await untilServing(connection, deployment);
}

const endingOf = ({ name, min_replicas: floor }: Deployment) =>
  floor === 0
    ? `${name} is parked when it is idle, and the next question wakes it. \`verk deployments stop ${name}\` stops it.`
    : `${name} goes on serving. \`verk deployments stop ${name}\` stops it.`;
