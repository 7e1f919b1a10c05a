/** Follows a model that the server is making: a download or a quantization. */
import type { Model } from "../../resources/serving/models/schema.ts";
import type { connect } from "../connect.ts";
import { pollUntil } from "../poll.ts";
import { createProgress } from "../progress.ts";

const POLL_MS = 500;
const OUTAGE_MS = 30_000;

type Client = Awaited<ReturnType<typeof connect>>["client"];
type Waiting = {
  /** Beside the progress: "downloading". */
  verb: string;
  wait: boolean;
};

/** The model as it is at the end, or when the person stops waiting: the server goes on. */
export async function followModel(client: Client, model: Model, { verb, wait }: Waiting) {
  let now = model;
  const progress = createProgress();
  const stop = new AbortController();
  process.once("SIGINT", () => stop.abort());
  const isOpen = ({ status }: Model) => status === "pending" || status === "downloading";
  const probe = async () => {
    now = (await client.call<Model>("GET", `/v1/models/${model.id}`, undefined, { signal: stop.signal })).body;
    if (isOpen(now)) progress.show(`${verb} ${now.file ?? now.name}`, now.progress ?? 0);
    return now;
  };
  const polling = { signal: stop.signal, everyMs: POLL_MS, outageMs: OUTAGE_MS };
  if (wait && isOpen(now)) await pollUntil(probe, (each) => !isOpen(each), polling).finally(progress.end);
  return { model: now, isInterrupted: stop.signal.aborted };
}

export const endingOf = (status: Model["status"]) => (status === "failed" ? "failed" : `is ${status}`);
