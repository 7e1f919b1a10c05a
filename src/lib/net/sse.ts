/** Server-sent events as text. */
import { type AppError, errorBody } from "../errors.ts";

/** A message with an id alone moves the reader's place: it reports no event, and a reader that reconnects sends the id. */
export type SseMessage = { id?: string; event?: string; data: unknown } | { id: string } | { comment: string };

/** `x-accel-buffering` keeps a proxy from holding the events back. */
export const SSE_HEADERS = {
  "content-type": "text/event-stream",
  "cache-control": "no-store",
  "x-accel-buffering": "no",
};

export function encodeSse(message: SseMessage): string {
  if ("comment" in message) return `: ${message.comment.replaceAll(/[\r\n]+/g, " ")}\n\n`;
  const lines: string[] = [];
  if (message.id !== undefined) lines.push(`id: ${message.id}`);
  if ("data" in message) {
    if (message.event !== undefined) lines.push(`event: ${message.event}`);
    lines.push(`data: ${JSON.stringify(message.data)}`); // one line: JSON escapes newlines
  }
  return `${lines.join("\n")}\n\n`;
}

/** `json`: text without a newline. */
export const sseData = (json: string): string => `data: ${json}\n\n`;

/** An error that ends a stream whose status was sent long ago. */
export const sseError = (error: AppError): string => sseData(JSON.stringify(errorBody(error)));

/** The last event of a stream of completions. */
export const SSE_DONE = sseData("[DONE]");
