/** The thread of platform/outside.ts: parses and checks one text, and returns what the schema of its form lets through. */
import { type Outside, OutsideError, readOutside } from "./lib/json/outside.ts";
import type { FromThread, ToThread } from "./platform/outside.ts";
import { CUSTOM_RESULTS } from "./platform/providers/protocol.ts";
import { CHAT_ANSWER, VECTORS } from "./resources/serving/deployments/chat/forms.ts";
import { HUB_LISTING } from "./resources/serving/models/hub/listing.ts";
import { BATCH } from "./resources/training/hub_pushes/forms.ts";
import { MLFLOW_RUN } from "./resources/training/tracker/forms.ts";
import { NODE_RECORD } from "./resources/training/training_jobs/remote/record_form.ts";

/** The forms whose `parsing` is `thread`. */
const THREAD_FORMS: readonly Outside<unknown>[] = [
  BATCH,
  CHAT_ANSWER,
  CUSTOM_RESULTS,
  HUB_LISTING,
  MLFLOW_RUN,
  NODE_RECORD,
  VECTORS,
];

declare const self: Worker;

self.onmessage = ({ data }: MessageEvent<ToThread>) => {
  self.postMessage(answerTo(data));
};

function answerTo({ source, bytes }: ToThread): FromThread {
  const form = THREAD_FORMS.find((each) => each.source === source);
  if (!form) throw new Error(`${source} is not in THREAD_FORMS`);
  try {
    return { value: readOutside(form, bytes) };
  } catch (error) {
    if (error instanceof OutsideError) return { error: error.message };
    throw error;
  }
}
