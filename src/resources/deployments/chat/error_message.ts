/** Reads error envelopes of a worker. */

type Envelope = { error: { code?: unknown; message?: unknown } };

function read(text: string): Envelope["error"] | undefined {
  try {
    return (JSON.parse(text) as Envelope).error;
  } catch {
    return undefined;
  }
}

export const messageOf = (text: string): string => String(read(text)?.message ?? text).slice(0, 1000);
export const codeOf = (text: string): unknown => read(text)?.code;
