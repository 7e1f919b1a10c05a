import { gunzipSync } from "node:zlib";
import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { bundleOf } from "./service.ts";

export const routes = (ctx: Ctx) =>
  new Elysia().get("/assets/:name", async ({ params, request }) => {
    const { assets } = await bundleOf(ctx);
    const asset = Object.hasOwn(assets, params.name) ? assets[params.name] : undefined;
    if (!asset) throw new AppError("resource_not_found", "No such file: reload the page, the server has a new version");
    const accepted = request.headers.get("accept-encoding") ?? "";
    const encoding = ["br", "gzip"].find((each) => accepted.includes(each));
    const file = Bun.file(encoding === "br" ? asset.brotli : asset.gzip);
    const body = encoding === undefined ? gunzipSync(await file.bytes()) : file;
    return new Response(body, {
      headers: {
        "content-type": asset.type,
        ...(encoding === undefined ? {} : { "content-encoding": encoding }),
        vary: "accept-encoding",
        "cache-control": "public, max-age=31536000, immutable", // the name has a hash of the content
      },
    });
  });
