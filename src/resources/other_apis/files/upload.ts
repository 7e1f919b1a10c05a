/** Uploads: the form is stored as it arrives. A bad field, a client that leaves or a crash leaves a loose key only. */
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { speaksAnthropic } from "../../../http/answer/anthropic.ts";
import { deepest, type Issue } from "../../../http/answer/issues.ts";
import { readMultipart } from "../../../http/body/multipart.ts";
import { formFieldCheck } from "../../../http/body/unknown_fields.ts";
import { type Creation, creates } from "../../../http/idempotency.ts";
import { AppError } from "../../../lib/errors.ts";
import { issueText } from "../../../lib/text/issue.ts";
import { SECOND_MS } from "../../../lib/units.ts";
import type { Meter, Written } from "../../../platform/files.ts";
import * as looseKeys from "../../data/loose_keys/service.ts";
import { meterOf } from "../../data/storage_usage/service.ts";
import { AnthropicFields, fromAnthropic, presentAnthropic } from "./anthropic.ts";
import { FileFields, LONGEST_NAME, present } from "./schema.ts";
import * as files from "./service.ts";

export async function upload(ctx: Ctx, call: Omit<Creation, "body">): Promise<object> {
  const isAnthropic = speaksAnthropic(call.request);
  const { workspaceId } = call.principal;
  using meter = meterOf(ctx, { workspaceId, kind: "files" }, { param: "file" });
  const key = files.keyFor(ctx.clock.now());
  let filename: string | undefined;
  let fields: FileFields;
  const receive = async (): Promise<Written> => {
    const schema = (isAnthropic ? AnthropicFields : FileFields).unwrap();
    const maxBytes = ctx.config.datasets.max_upload_bytes;
    const form = await storeForm(ctx, call.request, { field: "file", schema, key, meter, maxBytes });
    fields = fieldsOf(isAnthropic ? fromAnthropic(form.values) : form.values);
    filename = form.filename;
    return form.written;
  };
  return await looseKeys.store(ctx, {
    key,
    put: receive,
    own(tx, { bytes: sizeBytes, sha256 }) {
      const now = ctx.clock.now();
      const lifetime = fields["expires_after[seconds]"];
      const row = {
        workspaceId,
        filename: filename ?? "file",
        purpose: fields.purpose,
        sizeBytes,
        sha256,
        storageKey: key,
        expiresAt: lifetime === undefined ? null : now + lifetime * SECOND_MS,
      };
      let isNew = false;
      const answer = creates(ctx, { ...call, body: { ...fields, filename, sha256 } }, () => {
        meter.keep(sizeBytes);
        call.set.status = 200; // as OpenAI answers
        isNew = true;
        return (isAnthropic ? presentAnthropic : present)(files.add(tx, row, now));
      });
      if (!isNew) looseKeys.drop(tx, key, now); // the request was answered before
      return answer;
    },
  });
}

type Form = {
  /** The field of the file. */
  field: "file" | "data";
  /** The other fields. */
  schema?: z.ZodObject;
  key: string;
  meter: Meter;
  maxBytes: number;
};

/** Stores the one file of a form under the key. */
export async function storeForm(
  ctx: Ctx,
  request: Request,
  { field, schema = z.object({ [field]: z.unknown() }), key, meter, maxBytes }: Form,
): Promise<{ written: Written; filename: string; values: Readonly<Record<string, string>> }> {
  let written: Written | undefined;
  let filename = "file";
  const values = await readMultipart(request, {
    minBytesPerSecond: ctx.config.http.min_upload_bytes_per_second,
    onField: formFieldCheck(request, schema),
    maxFileBytes: maxBytes,
    silenceMs: ctx.config.http.idle_timeout_seconds * SECOND_MS,
    async onFile(part) {
      if (part.name !== field || written) {
        const message = `${field}: send exactly one file, in the field \`${field}\``;
        throw new AppError("schema", message, { param: field });
      }
      filename = part.filename.split(/[\\/]/).at(-1)?.slice(0, LONGEST_NAME) || "file";
      written = await ctx.storage.put(key, part.stream, { meter });
    },
  });
  if (written) return { written, filename, values };
  throw new AppError("schema", `${field}: is required: send it as a file in the field \`${field}\``, { param: field });
}

function fieldsOf(values: Readonly<Record<string, string>>): FileFields {
  const result = FileFields.safeParse(values);
  if (result.success) return result.data;
  const [first] = result.error.issues as Issue[];
  const issue = first && deepest(first);
  const field = String(issue?.path?.[0] ?? "purpose");
  const why = values[field] === undefined ? "is required" : issueText(issue);
  throw new AppError("schema", `${field}: ${why}`, { param: field });
}
