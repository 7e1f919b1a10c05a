/** Reads a request for a detection: JSON with base64, a form with a file, or the bytes of the file alone. */
import type { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { deepest, type Issue, schemaError } from "../../../http/answer/issues.ts";
import { readBody } from "../../../http/body/json.ts";
import { isMultipart, readMultipart } from "../../../http/body/multipart.ts";
import { readBytes } from "../../../http/body/read_bytes.ts";
import { checkFields } from "../../../http/body/unknown_fields.ts";
import { bodyLimits } from "../../../http/limits/body_limits.ts";
import { AppError } from "../../../lib/errors.ts";
import { queryOf } from "../../../lib/net/request_target.ts";
import { KIB } from "../../../lib/units.ts";
import * as schema from "../schema.ts";
import { decodeFile } from "./files.ts";

const SLACK_BYTES = 64 * KIB; // the body without the file
const RAW = /^(image\/|audio\/|application\/octet-stream\s*(;|$))/i;
const JSON_TYPE = /^application\/([\w.+-]+\+)?json\s*(;|$)/i;

export type Bytes = Uint8Array<ArrayBuffer>;
/** `decode` throws if the text of the file is not base64. */
export type Upload = { choice: schema.ModelChoice; decode: () => Bytes };

/** The limit of the route holds for each form. The bytes are reserved until the request is answered. */
export async function readUpload(ctx: Ctx, request: Request, workspaceId: string): Promise<Upload> {
  const type = request.headers.get("content-type") ?? "";
  try {
    if (isMultipart(request)) return await readForm(ctx, request, workspaceId);
    if (RAW.test(type)) return await readRaw(ctx, request, workspaceId);
    if (type === "" || JSON_TYPE.test(type)) return await readText(ctx, request);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "payload_too_large") throw error;
    throw new AppError("image_too_large", error.message, { cause: error });
  }
  throw new AppError(
    "unsupported_media_type",
    `Send the file as multipart/form-data (field image or audio), as image/…, audio/… or application/octet-stream, or as base64 in application/json, not as ${type.slice(0, 80)}`,
  );
}

async function readText(ctx: Ctx, request: Request): Promise<Upload> {
  const maxBytes = Math.ceil(ctx.config.detect.max_image_bytes / 3) * 4 + SLACK_BYTES;
  const body = await readBody(ctx, request, { ...bodyLimits(ctx, "small"), maxBytes }, schema.Detect);
  return uploadOf(ctx, body);
}

const uploadOf = (ctx: Ctx, { image, audio, ...choice }: z.output<typeof schema.Detect>): Upload => ({
  choice,
  decode: () => decodeFile(ctx, image ?? audio ?? "", image === undefined ? "audio" : "image"),
});

async function readRaw(ctx: Ctx, request: Request, workspaceId: string): Promise<Upload> {
  const choice = choiceOf(Object.fromEntries(queryOf(request)));
  const bytes = await readBytes(ctx, request, { maxBytes: ctx.config.detect.max_image_bytes, workspaceId });
  if (bytes.length === 0) throw noFile();
  return { choice, decode: () => bytes as Bytes };
}

/** A field with a file name is a file; a text in `image` or `audio` is base64, as in JSON. */
async function readForm(ctx: Ctx, request: Request, workspaceId: string): Promise<Upload> {
  const maxFileBytes = ctx.config.detect.max_image_bytes;
  const body = (await readBytes(ctx, request, { maxBytes: maxFileBytes + 2 * SLACK_BYTES, workspaceId })) as Bytes;
  const headers = { "content-type": request.headers.get("content-type") ?? "" };
  const files: Bytes[] = [];
  const fields = await readMultipart(new Request("http://form/", { method: "POST", headers, body }), {
    minBytesPerSecond: ctx.config.http.min_upload_bytes_per_second,
    maxFileBytes,
    onFile: async ({ name, stream }) => {
      if (name !== "image" && name !== "audio")
        throw schemaError({ path: [name], message: "send the file in the field image or audio" });
      files.push(new Uint8Array(Buffer.concat(await Array.fromAsync(stream))));
    },
  });
  checkFields(request, schema.Detect, fields);
  const { image, audio, ...options } = fields;
  const fileCount = files.length + (image === undefined ? 0 : 1) + (audio === undefined ? 0 : 1);
  if (fileCount > 1) throw schemaError({ path: ["image"], message: "send one file, in image or in audio" });
  const choice = choiceOf(options);
  const [file] = files;
  if (file && file.length > 0) return { choice, decode: () => file };
  if (image === undefined && audio === undefined) throw noFile();
  return uploadOf(ctx, { image, audio, ...choice });
}

const noFile = () => schemaError({ path: ["image"], message: "send the bytes of an image or a recording" });

const FLAGS: Record<string, boolean> = { true: true, "1": true, "": true, false: false, "0": false };

/** The options of a form or a query, where every value is a text. `models` is a list with commas. */
function choiceOf({ models, ...rest }: Record<string, string>): schema.ModelChoice {
  const flags = ["robustness", "heatmap"].flatMap((name) => {
    const text = rest[name];
    return text === undefined ? [] : [[name, FLAGS[text.toLowerCase()] ?? text]];
  });
  const texts = {
    ...rest,
    ...(models === undefined ? {} : { models: models.split(",").map((name) => name.trim()) }),
    ...Object.fromEntries(flags),
  };
  const result = schema.ModelChoice.safeParse(texts);
  if (result.success) return result.data;
  const [issue] = result.error.issues as Issue[];
  throw schemaError(issue && deepest(issue));
}
