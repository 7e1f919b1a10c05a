/** Limits of an answer from a node, whose owner answers in the name of the replica. */
import { AppError } from "../../../../lib/errors.ts";
import { SERVING_BYTES } from "../../../../lib/json/outside.ts";
import { MIB } from "../../../../lib/units.ts";

const STREAM_BYTES = 256 * MIB;
const WHOLE_BYTES = 4 * MIB;
const VECTOR_BYTES = 32 * MIB;
const LF = 10;

/** The same answer. Its body breaks with an error where it is longer than a model's, or where one line of a stream is. */
export function limited(response: Response, path: string): Response {
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") ?? false;
  const most = isStream ? STREAM_BYTES : path === "/embeddings" ? VECTOR_BYTES : WHOLE_BYTES;
  const mostLine = isStream ? SERVING_BYTES : most;
  let bytes = 0;
  let line = 0;
  const count = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      const end = chunk.lastIndexOf(LF);
      bytes += chunk.byteLength;
      line = end < 0 ? line + chunk.byteLength : chunk.byteLength - end - 1;
      if (bytes <= most && line <= mostLine) return controller.enqueue(chunk);
      const limit = bytes > most ? `${most} bytes` : `${mostLine} bytes in one line`;
      controller.error(new AppError("worker_failed", `The node of the deployment answered with more than ${limit}`));
    },
  });
  const { status, headers } = response;
  return new Response(response.body?.pipeThrough(count) ?? null, { status, headers });
}
