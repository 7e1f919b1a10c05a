/** A request with spans: JSON or protobuf, plain or with gzip. */
import type { Ctx, Principal } from "../../../../context.ts";
import { readBody } from "../../../../http/body/json.ts";
import { readBytes } from "../../../../http/body/read_bytes.ts";
import { unpacked } from "../../../../http/body/unpack.ts";
import { bodyLimits } from "../../../../http/limits/body_limits.ts";
import { AppError } from "../../../../lib/errors.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { ExportTraces, ingest, MAX_SPANS } from "./ingest.ts";
import { ProtobufError, readTraces, writeExported } from "./protobuf.ts";

const PROTOBUF = /^application\/x-protobuf\s*(?:;|$)/i;

export async function receiveSpans(ctx: Ctx, request: Request, principal: Principal): Promise<object> {
  const limits = bodyLimits(ctx, "spans");
  if (!PROTOBUF.test(request.headers.get("content-type") ?? ""))
    return ingest(ctx, principal, await readBody(ctx, request, limits, ExportTraces));
  const { workspaceId } = principal;
  const sent = await readBytes(ctx, request, { ...limits, workspaceId });
  const bytes = await unpacked(ctx, request, sent, { maxBytes: limits.maxBytes, workspaceId });
  const wait = ctx.state.http.turns.enter(workspaceId, bytes.length);
  if (wait) await wait;
  try {
    const spans = await readTraces(bytes, { most: MAX_SPANS, turn: takingTurns() });
    const { partialSuccess } = await ingest(ctx, principal, ExportTraces.parse(spans));
    return new Response(Buffer.from(writeExported(partialSuccess)), {
      headers: { "content-type": "application/x-protobuf" },
    });
  } catch (cause) {
    if (!(cause instanceof ProtobufError)) throw cause;
    throw new AppError("invalid_request", `The body is not ExportTraceServiceRequest in protobuf: ${cause.message}`, {
      cause,
    });
  }
}
