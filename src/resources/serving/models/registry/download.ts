/** The file of a model for a caller to save, at a signed address. */
import { statSync } from "node:fs";
import type { Ctx } from "../../../../context.ts";
import { fileResponse } from "../../../../http/answer/file_response.ts";
import { AppError } from "../../../../lib/errors.ts";
import { isoTime } from "../../../../lib/time.ts";
import * as signed from "../../../data/signed_urls/service.ts";
import * as models from "../service.ts";
import type { ModelRow } from "../table.ts";
import type { ModelFile } from "./schema.ts";

/** The sha256 of a file in the models folder may not be known yet. */
export function addressOfFile(ctx: Ctx, caller: signed.Call, name: string): ModelFile {
  const row = models.mustGet(ctx, caller.principal.workspaceId, name);
  mustHaveFile(ctx, row);
  const expiresAt = signed.expiryAfter(ctx, undefined);
  return {
    object: "model_file",
    model_id: row.id,
    url: signed.addressFor(ctx, caller, useOf(row), expiresAt),
    expires_at: isoTime(expiresAt),
    file_name: fileNameOf(row),
    size_bytes: row.sizeBytes ?? 0,
    sha256: row.sha256,
  };
}

function mustHaveFile(ctx: Ctx, row: ModelRow): string {
  const path = models.pathOf(ctx, row);
  if (models.fileOf(ctx, row) === "same") return path;
  throw new AppError("unsupported_state", `The file of model ${row.name} has changed or is gone: delete the model`, {
    param: "id",
  });
}

const useOf = ({ id }: ModelRow) => ({
  method: "GET" as const,
  path: signed.signedPath("v1", "models", id, "file"),
  sizeBytes: null,
  sha256: null,
});

/** Needs no API key: the signed address is the permission. */
export async function sendFile(ctx: Ctx, request: Request, id: string): Promise<Response> {
  const row = models.byIdOfAny(ctx, id);
  signed.admit(ctx, request, row && useOf(row));
  if (!row) throw new Error(`${id}: admitted without a row`);
  const path = mustHaveFile(ctx, row);
  const { sizeBytes, sha256, fileMtimeMs } = row;
  const answer = await fileResponse(request, {
    name: fileNameOf(row),
    contentType: "application/octet-stream",
    sizeBytes: sizeBytes ?? 0,
    sha256: sha256 ?? `${id}-${fileMtimeMs}`,
    updatedAt: fileMtimeMs ?? row.updatedAt,
    open: async ({ offset, length = (sizeBytes ?? 0) - offset }) => {
      if (!statSync(path, { throwIfNoEntry: false })) return undefined;
      const part = Bun.file(path).slice(offset, offset + length);
      return {
        stream: part.stream(),
        bytes: length,
        totalBytes: sizeBytes ?? 0,
        sha256: sha256 ?? "",
        file: async () => path,
      };
    },
  });
  if (!answer) throw new AppError("resource_not_found", `The file of model ${row.name} is gone`, { param: "id" });
  return answer;
}

/** A name that every file system takes. */
const fileNameOf = ({ name, hubFile }: ModelRow) => {
  const last = (hubFile ?? name).split("/").at(-1) ?? "";
  return `${
    last
      .replace(/\.gguf$/i, "")
      .replaceAll(/[^\w.-]+/g, "-")
      .replace(/^[-.]+/, "") || "model"
  }.gguf`;
};
