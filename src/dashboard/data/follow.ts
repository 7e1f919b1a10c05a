/** Server-sent events over fetch, which can send headers and see the status. Reconnects by itself. */
import { ApiError, send } from "./api.ts";

export type Message = { id: string | undefined; event: string; data: string };
export type Connection = "connecting" | "live" | "lost" | "refused";

export type FollowOptions = {
  onMessage: (message: Message) => void;
  onState?: (state: Connection) => void;
  /** Called when the server ends the stream. True: that was the end, do not reconnect. */
  isOver?: () => boolean;
};

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

/** Returns the function that stops. A stream that breaks is opened again with the id of its last message. */
export function follow(
  path: string,
  { onMessage, onState = () => {}, isOver = () => false }: FollowOptions,
): () => void {
  const stop = new AbortController();
  let lastId: string | undefined;
  const attempt = async (signal: AbortSignal) => {
    const headers = lastId === undefined ? {} : { "last-event-id": lastId };
    const response = await send(path, { headers: { accept: "text/event-stream", ...headers }, signal });
    onState("live");
    const parse = sseParser((message) => {
      if (message.id !== undefined) lastId = message.id;
      onMessage(message);
    });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) parse(next.value);
  };
  void (async () => {
    let wait = FIRST_WAIT_MS;
    onState("connecting");
    while (!stop.signal.aborted) {
      const startedAt = performance.now();
      try {
        await untilHidden(stop.signal, attempt);
        if (isOver()) return;
      } catch (error) {
        if (stop.signal.aborted) return;
        if (error instanceof ApiError && error.status >= 400 && error.status < 429) return onState("refused");
      }
      if (stop.signal.aborted) return;
      onState("lost");
      if (performance.now() - startedAt > LONGEST_WAIT_MS) wait = FIRST_WAIT_MS;
      await pause(wait, stop.signal);
      wait = Math.min(LONGEST_WAIT_MS, wait * 2);
    }
  })();
  return () => stop.abort();
}

/**
 * Aborts when the page is left. A browser may keep a page that was left, with its open streams: six of them take all
 * connections to the server.
 */
async function untilHidden(stop: AbortSignal, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const left = new AbortController();
  const leave = () => left.abort();
  addEventListener("pagehide", leave);
  try {
    await work(AbortSignal.any([stop, left.signal]));
  } finally {
    removeEventListener("pagehide", leave);
  }
}

/** Ends early when the browser says that the network is back, or when the tab is shown again. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      removeEventListener("online", done);
      document.removeEventListener("visibilitychange", shown);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const shown = () => !document.hidden && done(); // it also comes when the page is left
    const timer = setTimeout(done, ms);
    addEventListener("online", done);
    document.addEventListener("visibilitychange", shown);
    signal.addEventListener("abort", done);
  });
}

/** Takes the text of a stream in any pieces and calls `emit` for each message with an id or data. */
export function sseParser(emit: (message: Message) => void): (text: string) => void {
  let rest = "";
  return (text) => {
    rest += text;
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const message: Message = { id: undefined, event: "message", data: "" };
      const data: string[] = [];
      for (const line of block.split(/\r?\n/)) {
        const [, field = "", value = ""] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
        if (field === "id") message.id = value;
        if (field === "event") message.event = value;
        if (field === "data") data.push(value);
      }
      if (message.id !== undefined || data.length > 0) emit({ ...message, data: data.join("\n") });
    }
  };
}
