/** Inspects files in a process of its own, because a file may be hostile. */
import type { Ctx } from "../../../../context.ts";
import type { ModelShape } from "../../../../workers/protocol.ts";
import type { OnProgress, Refusal } from "./inspector.ts";

export type Inspection = { ok: true; shape: ModelShape; sizeBytes: number; sha256: string | null } | Refusal;

/** `workspaceId`: the workspace whose turn the inspection takes; "" for the server itself. */
type Options = { workspaceId: string; hash: boolean; onProgress?: OnProgress };

export async function inspect(ctx: Ctx, path: string, { workspaceId, hash, onProgress }: Options): Promise<Inspection> {
  const { headers, hashes } = ctx.state.models;
  const inspectors = hash ? hashes : headers;
  const answer = await inspectors.ask(ctx.supervisor, workspaceId, { type: "inspect", path, hash }, onProgress);
  if ("ok" in answer) return answer;
  if (answer.type !== "inspected") throw new Error(`the inspector answered ${answer.type}`);
  const { shape, size_bytes: sizeBytes, sha256 } = answer;
  return { ok: true, shape, sizeBytes, sha256 };
}

/** Null: our kernels decode the model. Else the reason against it, which continues "Verk's kernels do not decode". */
export async function reasonAgainstKernels(ctx: Ctx, workspaceId: string, path: string): Promise<string | null> {
  const answer = await ctx.state.models.headers.ask(ctx.supervisor, workspaceId, { type: "kernels", path });
  if ("ok" in answer) return answer.error;
  if (answer.type !== "kernels") throw new Error(`the inspector answered ${answer.type}`);
  return answer.reason;
}

/** The sha256 of a file of any kind. The child does it, so that the server goes on meanwhile. */
export async function hashFile(
  ctx: Ctx,
  workspaceId: string,
  path: string,
): Promise<{ ok: true; sha256: string } | Refusal> {
  const answer = await ctx.state.models.hashes.ask(ctx.supervisor, workspaceId, { type: "hash", path });
  if ("ok" in answer) return answer;
  if (answer.type !== "hashed") throw new Error(`the inspector answered ${answer.type}`);
  return { ok: true, sha256: answer.sha256 };
}

/** Copies the model inside the executable to `path`. The child does it, so that the server does not map its pages. */
export async function placeBuiltin(ctx: Ctx, path: string, sha256: string) {
  const answer = await ctx.state.models.headers.ask(ctx.supervisor, "", { type: "place", path, sha256 });
  if ("ok" in answer) throw new Error(`The built-in model could not be copied to ${path}: ${answer.error}`);
}
