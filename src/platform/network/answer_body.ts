/** Reads the body of an answer up to a limit. */
export type AnswerBody = {
  body: Uint8Array;
  /** The answer was longer than the limit; the rest was not read. */
  truncated: boolean;
  /** Only for an answer that is acknowledged by its status: the body, or as much of it as came in a second. */
  late?: Promise<Uint8Array>;
};

const LATE_MS = 1_000;
const NO_CONTENT = 204; // such an answer has no body

/** `parts` gets the bytes as they come, also of a body that is cut off. */
export async function readUpTo(
  response: Response,
  limit: number,
  signal: AbortSignal,
  parts: Uint8Array[] = [],
): Promise<AnswerBody> {
  const declared = Number(response.headers.get("content-length") ?? Number.NaN);
  if (declared <= limit) return { body: await orAborted(response.bytes(), signal), truncated: false }; // quicker than a stream
  let bytes = 0;
  const reader = response.body?.getReader();
  if (!reader) return { body: new Uint8Array(), truncated: false };
  for (;;) {
    const { done, value } = await orAborted(reader.read(), signal);
    if (done) break;
    parts.push(value.subarray(0, limit - bytes));
    bytes += value.byteLength;
    if (bytes <= limit) continue;
    await reader.cancel().catch(() => {}); // the answer is complete for us
    break;
  }
  return { body: joined(parts), truncated: bytes > limit };
}

const joined = (parts: readonly Uint8Array[]) => new Uint8Array(Buffer.concat(parts));

/**
 * Reads what came together with the headers and waits for nothing else. The rest is read for a short time, so that the
 * connection can be used again; then `over` ends it. Never rejects: the status has decided already.
 */
export async function readArrived(response: Response, limit: number, over: AbortController): Promise<AnswerBody> {
  if (response.status === NO_CONTENT) return { body: new Uint8Array(), truncated: false };
  const parts: Uint8Array[] = [];
  const whole = readUpTo(response, limit, over.signal, parts).catch(() => ({ body: joined(parts), truncated: false }));
  const arrived = await Promise.race([whole, new Promise<undefined>((resolve) => setImmediate(resolve))]);
  if (arrived) return arrived;
  const timer = setTimeout(() => over.abort(), LATE_MS);
  const late = whole.then(({ body }) => {
    clearTimeout(timer);
    return body;
  });
  return { body: new Uint8Array(), truncated: false, late };
}

export function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
