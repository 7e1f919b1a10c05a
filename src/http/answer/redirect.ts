import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { requirePlainTarget, urlOf } from "../../lib/net/request_target.ts";
import { isRead } from "../audit.ts";
import { requireHost } from "../host.ts";
import { errorResponse, toAppError } from "./errors.ts";

/**
 * The answer of the plain HTTP port. A browser is sent to https. A program with a key gets an error and no redirect:
 * its key has already crossed the network in clear text, and a redirect would hide that.
 */
export function redirectToHttps(ctx: Ctx, request: Request): Response {
  try {
    requireHost(request);
    requirePlainTarget(request);
    const target = urlOf(request);
    const { public_url: publicUrl } = ctx.config.http;
    const named = publicUrl.startsWith("https:") ? new URL(publicUrl) : undefined;
    target.protocol = "https:";
    target.hostname = named?.hostname ?? target.hostname;
    target.port = named?.port ?? String(ctx.state.http.listener?.port ?? 443);
    const { headers } = request;
    if (!isRead(request) || headers.has("authorization") || headers.has("x-api-key"))
      throw new AppError(
        "invalid_request",
        `This port only redirects browsers. Call ${target.origin}, and replace a key that was sent without TLS`,
      );
    return new Response(null, { status: 308, headers: { location: target.href, "cache-control": "no-store" } });
  } catch (error) {
    return errorResponse(toAppError(ctx, error, request), request);
  }
}
