import type { Ctx } from "../../context.ts";
import { keepOpen } from "../connection.ts";
import type { Creation } from "../idempotency.ts";
import type { describe } from "../openapi.ts";

type Upload<T> = (ctx: Ctx, call: Creation) => Promise<T>;

/**
 * Handler and options of a route that takes an upload: `.post("", ...uploadsBy(ctx, upload, describe(…)))`. `upload`
 * reads the body itself as it arrives, and may take long.
 */
export const uploadsBy = <T>(ctx: Ctx, upload: Upload<T>, detail: ReturnType<typeof describe>) =>
  [
    async ({ request, principal, set }: Creation): Promise<T> => {
      keepOpen(ctx, request);
      return await upload(ctx, { request, principal, set });
    },
    { parse: "none", detail },
  ] as const;
