/**
 * The read-only volumes of a session. They lie outside its workspace and are mounted from there, so every write of a
 * command fails (EROFS). Calls of the API see them at the same paths and refuse to change them.
 */
import { posix } from "node:path";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { type Beneath, hasVolume, openVolume, openWorkspace } from "../../../../sandbox/files/sandbox_dir.ts";
import { sessionOwner } from "../../../../sandbox/jail/session_jail.ts";
import type { Mount, SessionRow } from "../table.ts";
import { dirOf } from "./paths.ts";

/** `index`: of the copy. */
type ReadOnlyVolume = Mount & { index: number };

const isAtOrBelow = (path: string, top: string) => path === top || path.startsWith(`${top}/`);

/** Only the mounted ones. A session of an older version has them in its workspace if their path is there. */
export const readOnlyVolumes = (ctx: Ctx, row: SessionRow): ReadOnlyVolume[] =>
  row.volumes.flatMap((mount, index) =>
    mount.readOnly && hasVolume(dirOf(ctx, row.id), index) ? [{ ...mount, index }] : [],
  );

/** Opens what is at the path: a read-only volume, or the workspace. The caller closes it. */
export function openAt(ctx: Ctx, row: SessionRow, path: string): Beneath {
  const dir = dirOf(ctx, row.id);
  const volume = readOnlyVolumes(ctx, row).find(({ mountPath }) => isAtOrBelow(posix.normalize(path), mountPath));
  if (volume) return openVolume(dir, volume.index, volume.mountPath);
  return openWorkspace(dir, sessionOwner(ctx.config.data_dir), (at) => mustBeWritable(row, at));
}

/** Behind a mount point a file would be stored where no command sees it. */
export function mustBeWritable({ volumes }: SessionRow, path: string) {
  const mount = volumes.find(({ mountPath, readOnly }) => readOnly && isAtOrBelow(path, mountPath));
  if (mount) throw readOnly(mount);
}

const readOnly = ({ mountPath, name }: Mount) =>
  new AppError("invalid_request", `path: ${mountPath} is the volume ${name}, mounted read-only`, { param: "path" });
