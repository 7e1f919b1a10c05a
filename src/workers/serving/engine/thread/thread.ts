/**
 * The decoding thread. `llama_decode` blocks its caller, and the main thread must keep answering. Messages are handled
 * between two steps.
 */
import { errorText } from "../../../../lib/error_text.ts";
import { prepareAhead } from "../backends/ahead.ts";
import { openDecoding } from "../decoding.ts";
import { UnusableModel } from "../types.ts";
import { armFault } from "./fault.ts";
import type { BringMessage, FromThread, OpenMessage, OpenModel, Question, ToThread } from "./messages.ts";

declare const self: { onmessage: (event: { data: ToThread[] }) => void; postMessage: (message: FromThread) => void };

let decoding: OpenModel | null = null;
let turning = false;

const post = (message: FromThread) => self.postMessage(message);
const reason = (error: unknown) => errorText(error);

self.onmessage = ({ data: messages }) => {
  for (const message of messages) {
    if (message.type === "prepare") prepareAhead(message);
    else if (message.type === "open") open(message);
    else if (decoding) handle(decoding, message);
  }
  if (!turning && decoding?.idle === false) {
    turning = true;
    setImmediate(turn);
  }
};

function open(message: OpenMessage) {
  try {
    armFault(message.fault);
    const opened = openDecoding(message, post);
    decoding = opened.decoding;
    post({ type: "opened", model: opened.model, facts: opened.facts });
  } catch (error) {
    post({ type: "unopened", error: reason(error), unusable: error instanceof UnusableModel });
  }
}

function handle(open: OpenModel, message: Exclude<ToThread, { type: "open" | "prepare" }>) {
  if (message.type === "submit") return open.submit(message);
  if (message.type === "cancel") return open.cancel(message.sequences);
  if (message.type === "room") return open.grant(message.bytes);
  if (message.type === "embed") return open.withLibrary("embeddings are computed", () => answer(open, message));
  if (message.type === "share") return open.withLibrary("an adapter is shared", () => answer(open, message));
  if (message.type === "attach" || message.type === "combine") return bring(open, message);
  answer(open, message);
}

function bring(open: OpenModel, message: BringMessage) {
  const fail = (error: unknown) => post({ type: "answer", id: message.id, error: reason(error) });
  try {
    open.bring(message, (error) => (error === undefined ? answer(open, message) : fail(error)));
  } catch (error) {
    fail(error);
  }
}

function answer(open: OpenModel, message: Question) {
  try {
    if (message.type === "embed") return open.embed(message.id, message.prompts, message.adapter);
    if (message.type === "attach") {
      const address = open.attach(message);
      return post({ type: "answer", id: message.id, address });
    }
    if (message.type === "share") open.share(message.name, message.address);
    else if (message.type === "combine") open.combine(message.name, message.parts);
    else if (message.type === "detach") open.detach(message.name);
    else if (message.type === "clear") open.clear();
    else {
      open.close();
      decoding = null;
    }
    post({ type: "answer", id: message.id });
  } catch (error) {
    post({ type: "answer", id: message.id, error: reason(error) });
  }
}

function turn() {
  turning = decoding?.turn() ?? false;
  if (turning) setImmediate(turn);
}
