/** Uploads: the form is stored as it arrives. A bad field, a client that leaves or a crash leaves a loose key only. */

import type { Ctx } from "../../../context.ts";
import { speaksAnthropic } from "../../../http/answer/anthropic.ts";
import { deepest, type Issue } from "../../../http/answer/issues.ts";
import { readMultipart } from "../../../http/body/multipart.ts";
import { formFieldCheck } from "../../../http/body/unknown_fields.ts";
import { type Creation, creates } from "../../../http/idempotency.ts";
import { AppError } from "../../../lib/errors.ts";
import { issueText } from "../../../lib/text/issue.ts";
import { SECOND_MS } from "../../../lib/units.ts";
import type { Written } from "../../../platform/files.ts";
import * as looseKeys from "../../data/loose_keys/service.ts";
import { meterOf } from "../../data/storage_usage/service.ts";
import { AnthropicFields, fromAnthropic, presentAnthropic } from "./anthropic.ts";
import { FileFields, present } from "./schema.ts";
import * as files from "./service.ts";

const LONGEST_NAME = 200;

export async function upload(ctx: Ctx, call: Omit<Creation, "body">): Promise<object> {
  const isAnthropic = speaksAnthropic(call.request);
  const { workspaceId } = call.principal;
  using meter = meterOf(ctx, { workspaceId, kind: "files" }, { param: "file" });
  const key = files.keyFor(ctx.clock.now());
  let filename: string | undefined;
  let fields: FileFields;
  const receive = async (): Promise<Written> => {
    let written: Written | undefined;
    const values = await readMultipart(call.request, {
      minBytesPerSecond: ctx.config.http.min_upload_bytes_per_second,
      onField: formFieldCheck(call.request, (isAnthropic ? AnthropicFields : FileFields).unwrap()),
      maxFileBytes: ctx.config.datasets.max_upload_bytes,
      silenceMs: ctx.config.http.idle_timeout_seconds * SECOND_MS,
      async onFile(part) {
        if (part.name !== "file" || written)
          throw new AppError("schema", "file: send exactly one file, in the field `file`", { param: "file" });
        filename = part.filename.split(/[\\/]/).at(-1)?.slice(0, LONGEST_NAME) || "file";
        written = await ctx.storage.put(key, part.stream, { meter });
      },
    });
    fields = fieldsOf(isAnthropic ? fromAnthropic(values) : values);
    if (!written) throw new AppError("schema", "file: is required: send it in the field `file`", { param: "file" });
    return written;
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

function fieldsOf(values: Readonly<Record<string, string>>): FileFields {
  const result = FileFields.safeParse(values);
  if (result.success) return result.data;
  const [first] = result.error.issues as Issue[];
  const issue = first && deepest(first);
  const field = String(issue?.path?.[0] ?? "purpose");
  const why = values[field] === undefined ? "is required" : issueText(issue);
  throw new AppError("schema", `${field}: ${why}`, { param: field });
}
