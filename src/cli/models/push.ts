/** `verk models push`: sends a model to the hub and shows how far it is. */
import type { HubPush } from "../../resources/training/hub_pushes/schema.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS } from "../args.ts";
import { connect } from "../connect.ts";
import { INTERRUPTED } from "../interrupt.ts";
import { note, print, printJson } from "../output.ts";
import { pollUntil } from "../poll.ts";
import { createProgress } from "../progress.ts";

const POLL_MS = 500;
const OUTAGE_MS = 30_000;

export const pushModel = command({
  summary: "Push a model to the hub, with a model card",
  takes: ["model", "repo"],
  flags: {
    ...SERVER_FLAGS,
    variant: {
      type: "string",
      value: "VARIANT",
      doc: "adapter (PEFT), merged (safetensors) or gguf, made from the checkpoint of the job; model: the file as it is",
    },
    quantization: { type: "string", value: "TYPE", doc: "Type of the weights for merged and gguf, such as Q8_0" },
    checkpoint: { type: "string", value: "CHECKPOINT", doc: "A checkpoint of the job (ckpt_…), best or latest" },
    public: { type: "boolean", doc: "A new repository is visible to all (default: to its owner alone)" },
    "no-wait": { type: "boolean", doc: "Return at once instead of waiting for the push" },
    json: JSON_FLAG,
  },
  fields: {
    repo: "OWNER/REPO",
    variant: "--variant",
    quantization: "--quantization",
    checkpoint: "--checkpoint",
    private: "--public",
  },
  examples: [
    "verk models push my-model acme/my-model",
    "verk models push job_01j9… acme/my-model --variant gguf --quantization Q8_0 --public",
  ],
  exits: {
    1: "failed: the model could not be pushed",
    [INTERRUPTED]: "interrupted: the server continues the push",
  },
  async run(flags, model = "", repo = "") {
    const { json, variant, quantization, checkpoint, public: isPublic, "no-wait": noWait, ...where } = flags;
    const { client } = await connect(where);
    const path = `/v1/models/${encodeURIComponent(model)}/push`;
    const body = { repo, variant, quantization, checkpoint, private: !isPublic };
    let { body: push } = await client.call<HubPush>("POST", path, body);
    const progress = createProgress();
    const stop = new AbortController();
    process.once("SIGINT", () => stop.abort());
    const isOpen = ({ completed_at: at }: HubPush) => at === null;
    const probe = async () => {
      const at = `/v1/hub_pushes/${push.id}`;
      push = (await client.call<HubPush>("GET", at, undefined, { signal: stop.signal })).body;
      if (isOpen(push))
        progress.show(push.status === "preparing" ? "making the files" : `pushing to ${repo}`, push.progress);
      return push;
    };
    const polling = { signal: stop.signal, everyMs: POLL_MS, outageMs: OUTAGE_MS };
    if (!noWait) await pollUntil(probe, (each) => !isOpen(each), polling).finally(progress.end);
    if (json) printJson(push);
    else if (push.url !== null) print(push.url);
    else note(`verk: the push ${push.id} ${endingOf(push)}${push.error ? `: ${push.error}` : ""}`);
    if (stop.signal.aborted) return INTERRUPTED;
    return push.status === "failed" ? EXIT.failed : EXIT.ok;
  },
});

const endingOf = ({ status }: HubPush) => (status === "failed" ? "failed" : `is ${status}`);
