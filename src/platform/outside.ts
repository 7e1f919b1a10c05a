/** Parses long texts from outside in a thread, which returns the checked value alone. The serving thread goes on. */
import {
  bytesOf,
  mustFit,
  type Outside,
  OutsideError,
  readOutside,
  SERVING_BYTES,
  type Sent,
} from "../lib/json/outside.ts";
import { type Caller, Semaphore } from "./semaphore.ts";
import { compiled } from "./workers/self.ts";

/** In the executable the thread is an entry point of its own (scripts/build.ts). */
const THREAD = compiled ? "/$bunfs/root/outside_thread.js" : new URL("../outside_thread.ts", import.meta.url);

/** `source` names the form in the table of the thread. */
export type ToThread = { source: string; bytes: Uint8Array };
export type FromThread = { value: unknown } | { error: string };

/** A thread takes some ten megabytes while it runs. */
const threads = new Semaphore({ name: "long answers from outside", permits: 3 });

/** The checked value of a form that a thread may parse. Throws OutsideError, or the reason of the caller's signal. */
export async function readAside<T>(form: Outside<T>, sent: Sent | Uint8Array, caller: Caller): Promise<T> {
  mustFit(form, sent);
  if (bytesOf(sent) <= SERVING_BYTES) return readOutside(form, sent);
  const release = await threads.acquire(caller);
  try {
    const answer = await askThread({ source: form.source, bytes: "body" in sent ? sent.body : sent });
    if ("error" in answer) throw new OutsideError(answer.error);
    return answer.value as T;
  } finally {
    release?.();
  }
}

function askThread(message: ToThread): Promise<FromThread> {
  const { promise, resolve, reject } = Promise.withResolvers<FromThread>();
  const thread = new Worker(THREAD);
  thread.onmessage = ({ data }: MessageEvent<FromThread>) => resolve(data);
  thread.onerror = (event) => reject(new Error(`The thread that parses outside data failed: ${event.message}`));
  thread.postMessage(message);
  return promise.finally(() => thread.terminate());
}
